// The transforms and products of winograd.h, over whatever vectors an instruction set has. Set gives
//
//   Words, kWords     16-bit lanes: load, load_signed (bytes, widened), store, zero, + -, times<n>, by 2^n
//   Sums, kSums       32-bit lanes: load, store, zero, + -, times<n>, down<n>, by 2^-n; times9th, by kNinth
//   pair(p), pairs(p)  two neighbouring words for every 32-bit lane; as many as there are lanes, Pairs
//   dot(s, a, b)       s + the sums of the products of neighbouring words
#pragma once

#include "base/inline.h"
#include "kernels/winograd/winograd.h"

namespace intact::winograd {
namespace {

constexpr int32_t kNinth = 0x38e38e39;  // times 9 it is 1 modulo 2^32

// B', one dimension: points 0, 1, -1, 2, -2 and infinity.
template <class V>
INTACT_INLINE void spread(const V (&d)[kTileIn], V (&t)[kTileIn]) {
  const V even = d[4] - d[2], odd = d[3] - d[1], twice = odd.template times<1>();
  const V far = d[4] - d[2].template times<2>(), near = d[3] - d[1].template times<2>();
  t[0] = (d[0] - d[2]).template times<2>() + even;
  t[1] = far + near;
  t[2] = far - near;
  t[3] = even + twice;
  t[4] = even - twice;
  t[5] = (d[5] - d[3]) - twice.template times<1>();
}

// A' with the scales of G's rows, one dimension: 24, 12, 6 and 6 times the outputs.
template <class V>
INTACT_INLINE void gather(const V (&m)[kTileIn], V (&y)[kTileOut]) {
  const V p = m[1] + m[2], q = m[1] - m[2], r = m[3] + m[4], s = m[3] - m[4];
  y[0] = m[0].template times<1>() + p.template times<2>() + r;
  y[1] = q.template times<1>() + s;
  y[2] = p + r;
  y[3] = q + (s + m[5]).template times<1>();
}

template <class Set>
void transform_input(const WinogradPixels& pixels, int16_t* input, ptrdiff_t plane) {
  using Words = typename Set::Words;
  for (int c = 0; c < pixels.channels; c += Set::kWords) {
    Words columns[kTileIn][kTileIn];
    INTACT_UNROLL("GCC unroll 6")
    for (int j = 0; j < kTileIn; ++j) {
      Words d[kTileIn];
      INTACT_UNROLL("GCC unroll 6")
      for (int i = 0; i < kTileIn; ++i) d[i] = Words::load(pixels.rows[i] + pixels.columns[j] + c);
      spread(d, columns[j]);
    }
    INTACT_UNROLL("GCC unroll 6")
    for (int i = 0; i < kTileIn; ++i) {
      Words d[kTileIn], t[kTileIn];
      INTACT_UNROLL("GCC unroll 6")
      for (int j = 0; j < kTileIn; ++j) d[j] = columns[j][i];
      spread(d, t);
      INTACT_UNROLL("GCC unroll 6")
      for (int j = 0; j < kTileIn; ++j) t[j].store(input + (i * kTileIn + j) * plane + c);
    }
  }
}

template <class Set>
void transform_output(const int32_t* sums, ptrdiff_t plane, const int32_t* correction, int width,
                      int32_t* outputs) {
  using Sums = typename Set::Sums;
  for (int c = 0; c < width; c += Set::kSums) {
    const Sums added = Sums::load(correction + c);
    Sums rows[kTileIn][kTileOut];
    INTACT_UNROLL("GCC unroll 6")
    for (int i = 0; i < kTileIn; ++i) {
      Sums m[kTileIn];
      INTACT_UNROLL("GCC unroll 6")
      for (int j = 0; j < kTileIn; ++j) m[j] = Sums::load(sums + (i * kTileIn + j) * plane + c);
      gather(m, rows[i]);
    }
    const auto keep = [&](int i, int j, Sums whole) {
      (whole + added).store(outputs + (i * 4 + j) * width + c);
    };
    INTACT_UNROLL("GCC unroll 4")
    for (int j = 0; j < kTileOut; ++j) {
      Sums m[kTileIn], y[kTileOut];
      INTACT_UNROLL("GCC unroll 6")
      for (int i = 0; i < kTileIn; ++i) m[i] = rows[i][j];
      gather(m, y);
      // y[i] is 576 / (c_i * c_j) times the output, c being 1, 2, 4 and 4.
      const auto whole = [&](int i) { return y[i].times9th(); };
      switch (j) {
        case 0:
          keep(0, j, whole(0).template down<6>());
          keep(1, j, whole(1).template down<5>());
          keep(2, j, whole(2).template down<4>());
          keep(3, j, whole(3).template down<4>());
          break;
        case 1:
          keep(0, j, whole(0).template down<5>());
          keep(1, j, whole(1).template down<4>());
          keep(2, j, whole(2).template down<3>());
          keep(3, j, whole(3).template down<3>());
          break;
        default:
          keep(0, j, whole(0).template down<4>());
          keep(1, j, whole(1).template down<3>());
          keep(2, j, whole(2).template down<2>());
          keep(3, j, whole(3).template down<2>());
      }
    }
  }
}

// G, one dimension, its rows times 12, 6, 6, 24, 24 and 3.
template <int kRow, class V>
INTACT_INLINE V scaled(V g0, V g1, V g2) {
  if constexpr (kRow == 0) return g0.template times<1>() + g0;
  if constexpr (kRow == 1) return V::zero() - (g0 + g2) - g1;
  if constexpr (kRow == 2) return g1 - (g0 + g2);
  if constexpr (kRow == 3) return (g0 + g2.template times<2>()) + g1.template times<1>();
  if constexpr (kRow == 4) return (g0 + g2.template times<2>()) - g1.template times<1>();
  if constexpr (kRow == 5) return g2.template times<1>() + g2;
}

template <class Set, int kRow>
void transform_row(const WinogradTaps& t, int16_t* weights) {
  using Words = typename Set::Words;
  const ptrdiff_t step = 2 * ptrdiff_t{t.width}, plane = t.channels / 2 * step;
  for (ptrdiff_t pair = 0; pair < t.channels / 2; ++pair) {
    const int8_t* const taps = t.taps + 9 * step * pair;
    for (ptrdiff_t c = 0; c < step; c += Set::kWords) {
      const auto tap = [&](int i, int j) { return Words::load_signed(taps + (3 * i + j) * step + c); };
      const Words g0 = scaled<kRow>(tap(0, 0), tap(1, 0), tap(2, 0));
      const Words g1 = scaled<kRow>(tap(0, 1), tap(1, 1), tap(2, 1));
      const Words g2 = scaled<kRow>(tap(0, 2), tap(1, 2), tap(2, 2));
      int16_t* const to = weights + pair * step + c;
      scaled<0>(g0, g1, g2).store(to);
      scaled<1>(g0, g1, g2).store(to + plane);
      scaled<2>(g0, g1, g2).store(to + 2 * plane);
      scaled<3>(g0, g1, g2).store(to + 3 * plane);
      scaled<4>(g0, g1, g2).store(to + 4 * plane);
      scaled<5>(g0, g1, g2).store(to + 5 * plane);
    }
  }
}

template <class Set>
void transform_weights(const WinogradTaps& t, int16_t* weights) {
  switch (t.row) {
    case 0: return transform_row<Set, 0>(t, weights);
    case 1: return transform_row<Set, 1>(t, weights);
    case 2: return transform_row<Set, 2>(t, weights);
    case 3: return transform_row<Set, 3>(t, weights);
    case 4: return transform_row<Set, 4>(t, weights);
    default: return transform_row<Set, 5>(t, weights);
  }
}

template <class Set, int kRows, int kVectors>
void multiply_tile(const WinogradProduct& p, int first) {
  using Sums = typename Set::Sums;
  constexpr int kWidth = Set::kSums * kVectors;
  Sums sums[kRows][kVectors];
  const int16_t* x[kRows];
  INTACT_UNROLL("GCC unroll 16")
  for (int r = 0; r < kRows; ++r) {
    x[r] = p.input + static_cast<ptrdiff_t>(first + r) * p.channels;
    INTACT_UNROLL("GCC unroll 4")
    for (int v = 0; v < kVectors; ++v) sums[r][v] = Sums::zero();
  }
  const int16_t* w = p.weights;
  for (ptrdiff_t k = 0; k < p.channels; k += 2, w += 2 * kWidth) {
    typename Set::Pairs weights[kVectors];
    INTACT_UNROLL("GCC unroll 4")
    for (int v = 0; v < kVectors; ++v) weights[v] = Set::pairs(w + 2 * Set::kSums * v);
    INTACT_UNROLL("GCC unroll 16")
    for (int r = 0; r < kRows; ++r) {
      const auto two = Set::pair(x[r] + k);
      INTACT_UNROLL("GCC unroll 4")
      for (int v = 0; v < kVectors; ++v) sums[r][v] = Set::dot(sums[r][v], two, weights[v]);
    }
  }
  INTACT_UNROLL("GCC unroll 16")
  for (int r = 0; r < kRows; ++r) {
    INTACT_UNROLL("GCC unroll 4")
    for (int v = 0; v < kVectors; ++v) {
      sums[r][v].store(p.sums + static_cast<ptrdiff_t>(first + r) * kWidth + Set::kSums * v);
    }
  }
}

// As many tiles at a time as registers hold, kMost, in pieces of nearly equal height.
template <class Set, int kVectors, int kMost>
void multiply_rows(const WinogradProduct& p) {
  const int pieces = (p.tiles + kMost - 1) / kMost, few = p.tiles / pieces, more = p.tiles % pieces;
  for (int first = 0, piece = 0; piece < pieces; ++piece) {
    const int rows = few + (piece < more ? 1 : 0);
    const auto take = [&]<int kRows>(auto&& self) {
      if (rows == kRows) return multiply_tile<Set, kRows, kVectors>(p, first);
      if constexpr (kRows > 1) self.template operator()<kRows - 1>(self);
    };
    take.template operator()<kMost>(take);
    first += rows;
  }
}

}  // namespace
}  // namespace intact::winograd
