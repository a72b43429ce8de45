// Tiles of rows by registers of columns, for every register width (base/vector/vector.h). Sums stay in
// registers for all of k. If rows are few, a tile spans several panels, so that enough independent sums hide
// the latency of a fused multiply-add.
#pragma once

#include <algorithm>
#include <utility>

#include "base/vector/vector.h"
#include "kernels/float_gemm/pack.h"

namespace intact::float_gemm {

using vec::F;

// body(0), ..., body(n - 1), each with a constant. GCC 12 unrolls loops so late that their arrays stay in
// memory.
template <int n, class Body>
INTACT_INLINE void unroll(const Body& body) {
  [&]<int... i>(std::integer_sequence<int, i...>) INTACT_INLINE_BODY {
    (body(std::integral_constant<int, i>{}), ...);
  }(std::make_integer_sequence<int, n>{});
}

// kRows rows by kPanels panels, of which the first kVectors registers count. Of one panel the last register
// may hold fewer columns; several are whole.
template <class V, size_t kPanel, int kRows, int kPanels, int kVectors>
void tile(const FloatGemm& g, size_t row, size_t column) {
  constexpr int kEach = kPanels * kVectors;
  constexpr auto at = [](int s) {
    return static_cast<size_t>(s / kVectors) * kPanel + static_cast<size_t>(s % kVectors) * V::kWidth;
  };
  F<V> sums[kRows][kEach];
  const size_t last =
      std::min(g.columns - column - at(kEach - 1), V::kWidth);  // columns of the last register
  const auto lanes = [&](int s) INTACT_INLINE_BODY { return s + 1 < kEach ? V::kWidth : last; };
  const auto each = [&](const auto& body) INTACT_INLINE_BODY {
    unroll<kRows>([&](auto r) INTACT_INLINE_BODY {
      float* const y = g.y[row + r] + column;
      unroll<kEach>([&](auto s) INTACT_INLINE_BODY { body(y + at(s), sums[r][s], lanes(s)); });
    });
  };
  if (g.more) {
    each([](const float* y, F<V>& sum, size_t n) INTACT_INLINE_BODY { sum = vec::load<V>(y, n); });
  } else {
    unroll<kEach>([&](auto s) INTACT_INLINE_BODY {
      const F<V> first = g.start != nullptr ? vec::load<V>(g.start + column + at(s), lanes(s)) : V::set(0.0f);
      unroll<kRows>([&](auto r) INTACT_INLINE_BODY { sums[r][s] = first; });
    });
  }
  const float* b = g.b + column / kPanel * g.pitch;
  const size_t down = g.down == 0 ? kPanel : g.down;
  for (size_t run = 0; run < g.runs; ++run) {
    const float* a[kRows];
    unroll<kRows>([&](auto r) INTACT_INLINE_BODY { a[r] = g.a[row + r] + g.offsets[run]; });
    ptrdiff_t from = 0;
    for (size_t k = 0; k < g.length; ++k, from += g.step, b += down) {
      F<V> right[kEach];
      unroll<kEach>([&](auto s) INTACT_INLINE_BODY {
        right[s] = V::load(b + static_cast<size_t>(s / kVectors) * g.pitch +
                           static_cast<size_t>(s % kVectors) * V::kWidth);
      });
      unroll<kRows>([&](auto r) INTACT_INLINE_BODY {
        const F<V> left = V::set(a[r][from]);
        unroll<kEach>([&](auto s) INTACT_INLINE_BODY { sums[r][s] = V::fma(left, right[s], sums[r][s]); });
      });
    }
  }
  each([](float* y, F<V>& sum, size_t n) INTACT_INLINE_BODY { vec::store<V>(y, sum, n); });
}

using Tile = void (*)(const FloatGemm& g, size_t row, size_t column);

// The tiles of one panel, by rows, with kVectors registers.
template <class V, size_t kPanel, int kRows, int kVectors>
struct Heights {
  Tile of[kRows];
  constexpr Heights() : of{} { fill<kRows>(); }

 private:
  template <int rows>
  constexpr void fill() {
    of[rows - 1] = tile<V, kPanel, rows, 1, kVectors>;
    if constexpr (rows > 1) fill<rows - 1>();
  }
};

// The tiles for the last panel, by the registers that its columns fill.
template <class V, size_t kPanel, int kRows, int kVectors>
Tile tile_of(size_t rows, size_t vectors) {
  static constexpr Heights<V, kPanel, kRows, kVectors> kTiles;
  if constexpr (kVectors > 1) {
    if (vectors < kVectors) return tile_of<V, kPanel, kRows, kVectors - 1>(rows, vectors);
  }
  return kTiles.of[rows - 1];
}

// Tiles of at most kRows rows by kVectors registers.
template <class V, int kRows, int kVectors>
void multiply(const FloatGemm& g) {
  constexpr size_t kPanel = V::kWidth * kVectors, kMost = kRows;
  constexpr Tile kWide[3] = {tile<V, kPanel, 1, 4, kVectors>, tile<V, kPanel, 2, 2, kVectors>,
                             tile<V, kPanel, 3, 2, kVectors>};
  size_t column = 0;
  if (g.rows > 0 && g.rows <= 3) {
    const size_t width = (g.rows == 1 ? 4 : 2) * kPanel;
    for (; column + width <= g.columns; column += width) kWide[g.rows - 1](g, 0, column);
  }
  const size_t tiles = (g.rows + kMost - 1) / kMost;
  for (; column < g.columns; column += kPanel) {
    const size_t left = g.columns - column < kPanel ? g.columns - column : kPanel;
    const size_t vectors = (left + V::kWidth - 1) / V::kWidth;
    for (size_t t = 0, row = 0; t < tiles; ++t) {  // of nearly equal height
      const size_t rows = g.rows / tiles + (t < g.rows % tiles ? 1 : 0);
      tile_of<V, kPanel, kRows, kVectors>(rows, vectors)(g, row, column);
      row += rows;
    }
  }
}

// One register of channels for kPixels pixels: the weights are loaded once for them.
template <class V, int kPixels>
INTACT_INLINE void channels_of(const FloatDepthwise& d, size_t pixel, size_t channel, size_t n) {
  F<V> sums[kPixels];
  for (int p = 0; p < kPixels; ++p) {
    sums[p] = d.start != nullptr ? vec::load<V>(d.start + channel, n) : V::set(0.0f);
  }
  for (size_t t = 0; t < d.taps; ++t) {
    const F<V> w = vec::load<V>(d.w + t * d.channels + channel, n);
    for (int p = 0; p < kPixels; ++p) {
      const float* x = d.x[pixel + static_cast<size_t>(p)] + d.offsets[t] + static_cast<ptrdiff_t>(channel);
      sums[p] = V::fma(vec::load<V>(x, n), w, sums[p]);
    }
  }
  for (int p = 0; p < kPixels; ++p) {
    vec::store<V>(d.y[pixel + static_cast<size_t>(p)] + channel, sums[p], n);
  }
}

template <class V>
void depthwise(const FloatDepthwise& d) {
  constexpr size_t kTogether = 8;  // fused multiply-adds in flight
  size_t pixel = 0;
  for (; pixel + kTogether <= d.pixels; pixel += kTogether) {
    vec::for_each<V>(d.channels, [&](size_t c, size_t n)
                                     INTACT_INLINE_BODY { channels_of<V, kTogether>(d, pixel, c, n); });
  }
  for (; pixel < d.pixels; ++pixel) {
    vec::for_each<V>(d.channels,
                     [&](size_t c, size_t n) INTACT_INLINE_BODY { channels_of<V, 1>(d, pixel, c, n); });
  }
}

// Some registers of pixels, of the last one `last`: each weight is loaded once for them.
template <class V, int kTogether>
void pixels_of(const FloatFilter& f, size_t pixel, size_t last) {
  F<V> sums[kTogether];
  for (int i = 0; i < kTogether; ++i) sums[i] = V::set(f.start);
  const auto at = [&](int i) INTACT_INLINE_BODY { return pixel + static_cast<size_t>(i) * V::kWidth; };
  const auto lanes = [&](int i) INTACT_INLINE_BODY { return i + 1 < kTogether ? V::kWidth : last; };
  const auto multiply = [&](const auto& load) INTACT_INLINE_BODY {
    for (size_t t = 0; t < f.taps; ++t) {
      const F<V> w = V::set(f.w[t * f.step]);
      const float* const x = f.x + f.offsets[t];
      for (int i = 0; i < kTogether; ++i) sums[i] = V::fma(load(x, i), w, sums[i]);
    }
  };
  if (last == V::kWidth) {
    multiply([&](const float* x, int i) INTACT_INLINE_BODY { return V::load(x + at(i)); });
  } else {
    multiply([&](const float* x, int i) INTACT_INLINE_BODY { return vec::load<V>(x + at(i), lanes(i)); });
  }
  for (int i = 0; i < kTogether; ++i) vec::store<V>(f.y + at(i), sums[i], lanes(i));
}

// As many registers as may be under way.
template <class V>
void filter(const FloatFilter& f) {
  using Pixels = void (*)(const FloatFilter& f, size_t pixel, size_t last);
  constexpr Pixels kPixels[8] = {pixels_of<V, 1>, pixels_of<V, 2>, pixels_of<V, 3>, pixels_of<V, 4>,
                                 pixels_of<V, 5>, pixels_of<V, 6>, pixels_of<V, 7>, pixels_of<V, 8>};
  constexpr size_t kMost = 8 * V::kWidth;
  for (size_t pixel = 0; pixel < f.pixels; pixel += kMost) {
    const size_t left = f.pixels - pixel < kMost ? f.pixels - pixel : kMost;
    const size_t registers = (left + V::kWidth - 1) / V::kWidth;
    kPixels[registers - 1](f, pixel, left - (registers - 1) * V::kWidth);
  }
}

template <class V, int kRows, int kVectors>
constexpr FloatGemmOps ops_of() {
  constexpr size_t kPanel = V::kWidth * kVectors;
  return {kRows, kPanel, pack_panels<kPanel>, multiply<V, kRows, kVectors>, depthwise<V>, filter<V>};
}

}  // namespace intact::float_gemm
