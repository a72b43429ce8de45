// vpmaddubsw over groups of steps whose 16-bit sums are proved not to overflow (groups.cc): products are
// added in 16 bits and widened once for each group. Panels of words have their own loop.
#include "kernels/gemm/gemm.h"

#if INTACT_ARCH_X86
#include <immintrin.h>

#include <algorithm>
#include <cstring>

#include "kernels/gemm/x86_avx2_finish.h"
#include "kernels/gemm/x86_avx2_outliers.h"
#include "kernels/gemm/x86_avx2_whole.h"

namespace intact {
namespace {

constexpr int kMostRows = 12;  // of a tile

template <int kRows, int kVectors>
struct Sums {
  __m256i wide[kRows][kVectors];
  const uint8_t* x[kRows];
  const int8_t* w;
  const int32_t* steps;
};

// The groups of kSize steps: one 16-bit sum each, unrolled.
template <int kSize, int kRows, int kVectors>
inline __attribute__((always_inline)) void add_groups(Sums<kRows, kVectors>& s, int32_t groups) {
  const __m256i ones = _mm256_set1_epi16(1);
  for (; groups > 0; --groups) {
    __m256i narrow[kRows][kVectors];
#pragma GCC unroll 8
    for (int step = 0; step < kSize; ++step) {
      const ptrdiff_t offset = s.steps[step];
      __m256i weights[kVectors];
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) {
        weights[v] = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(s.w + 32 * (step * kVectors + v)));
      }
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        int32_t bytes;
        std::memcpy(&bytes, s.x[r] + offset, 4);
        const __m256i four = _mm256_set1_epi32(bytes);
#pragma GCC unroll 2
        for (int v = 0; v < kVectors; ++v) {
          const __m256i pairs = _mm256_maddubs_epi16(four, weights[v]);
          narrow[r][v] = step == 0 ? pairs : _mm256_add_epi16(narrow[r][v], pairs);
          INTACT_IN_ORDER(narrow[r][v]);
        }
      }
    }
    s.steps += kSize;
    s.w += 32 * kSize * kVectors;
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) {
        s.wide[r][v] = _mm256_add_epi32(s.wide[r][v], _mm256_madd_epi16(narrow[r][v], ones));
      }
    }
  }
}

// Some groups of a panel.
struct Part {
  const int8_t* weights;
  const int32_t* steps;
  int32_t counts[kMostGroup];
};

// Adds to what the sums are, or first to the corrections. Stands alone: inlined, it spills (a sixth of the
// time of groups, GCC 12).
template <int kRows, int kVectors, class End>
INTACT_APART void sum_tile(const Part& part, const GemmTile& t, int first, bool begins, const End& end) {
  Sums<kRows, kVectors> s;
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
    s.x[r] = t.x[first + r] + t.x_offset;
    const int32_t* const from = begins ? t.correction : t.sums + (first + r) * kVectors * kUnit;
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) {
      s.wide[r][v] = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + kUnit * v));
    }
  }
  s.w = part.weights;
  s.steps = part.steps;
  add_groups<8>(s, part.counts[7]);
  add_groups<7>(s, part.counts[6]);
  add_groups<6>(s, part.counts[5]);
  add_groups<5>(s, part.counts[4]);
  add_groups<4>(s, part.counts[3]);
  add_groups<3>(s, part.counts[2]);
  add_groups<2>(s, part.counts[1]);
  add_groups<1>(s, part.counts[0]);
  end(s.wide, first);
}

// As many rows at a time as registers hold.
template <class End>
void sum_part(const Part& part, const GemmTile& t, int width, bool begins, const End& end) {
  int row = 0;
  if (width == kUnit) {
    for (; row + 4 <= t.rows; row += 4) sum_tile<4, 1>(part, t, row, begins, end);
    for (; row < t.rows; ++row) sum_tile<1, 1>(part, t, row, begins, end);
    return;
  }
  for (; row + 3 <= t.rows; row += 3) sum_tile<3, 2>(part, t, row, begins, end);
  if (row + 2 == t.rows) sum_tile<2, 2>(part, t, row, begins, end);
  if (row + 1 == t.rows) sum_tile<1, 2>(part, t, row, begins, end);
}

// In parts whose weights stay in the first cache while all rows of the tile pass.
template <class End>
void sum_groups(const GemmSteps& s, const GemmTile& t, const End& end) {
  constexpr int32_t kPartBytes = 16 << 10;
  const int32_t step_bytes = 4 * s.width, most = kPartBytes / step_bytes;
  Part part{s.weights, s.steps, {}};
  int32_t size = kMostGroup, left = s.counts[size - 1];
  for (bool begins = true; size > 0 || begins; begins = false) {
    int32_t steps = 0;
    std::fill(std::begin(part.counts), std::end(part.counts), 0);
    while (size > 0) {
      const int32_t groups = std::min(left, (most - steps) / size);
      part.counts[size - 1] = groups;
      steps += groups * size;
      left -= groups;
      if (left > 0) break;
      if (--size > 0) left = s.counts[size - 1];
    }
    size > 0 ? sum_part(part, t, s.width, begins, KeepSums{t.sums}) : sum_part(part, t, s.width, begins, end);
    part.weights += ptrdiff_t{steps} * step_bytes;
    part.steps += steps;
  }
}

void sum(const GemmSteps& s, const GemmTile& t) {
  const KeepSums keep{t.sums};
  if (s.words > 0 && t.outliers == nullptr) {
    return s.places == nullptr ? sum_words<true>(s, t, keep) : sum_words<false>(s, t, keep);
  }
  sum_groups(s, t, keep);
  if (t.outliers == nullptr) return;
  s.width == kUnit ? add_outliers<1>(s, t) : add_outliers<2>(s, t);
}

// Words need no sums in memory; groups, whose weights may come in parts, those of one tile.
void whole_rows(const GemmSteps& s, GemmTile t, const Epilogue& e, GemmRows rows) {
  if (s.words > 0) return sum_words<true>(s, t, Codes(e, rows));
  const int all = t.rows;
  for (int first = 0; first < all; first += kMostRows) {
    t.rows = rows.rows = std::min(kMostRows, all - first);
    sum_groups(s, t, Codes(e, rows));
    t.x += t.rows;
    rows.y += t.rows;
    if (rows.residual != nullptr) rows.residual += t.rows;
  }
}

// Where outliers are added, a tile's sums are complete in memory only.
bool whole(const GemmSteps& s, const GemmTile& t, const Epilogue& e, const GemmRows& rows) {
  if (e.floats || e.function != nullptr || !e.bounded || rows.slopes != nullptr) return false;
  if (e.has_gain) return false;
  if (rows.channels != s.width || s.places != nullptr) return false;
  whole_rows(s, t, e, rows);
  return true;
}

}  // namespace

const GemmOps gemm_avx2 = {kUnit, kWidest, true, {kMostRows, kMostRows, 0, 0}, 0, sum, finish,
                           whole, widen,   split};

}  // namespace intact
#endif
