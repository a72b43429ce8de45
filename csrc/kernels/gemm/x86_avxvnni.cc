// vpdpbusd on 256-bit registers, for machines that have it without AVX-512. Epilogues are those of AVX2.
#include "kernels/gemm/gemm.h"

#if INTACT_ARCH_X86 && defined(INTACT_AVXVNNI)
#include <cstring>

#include "base/x86_avxvnni.h"

namespace intact {
namespace {

constexpr int kUnit = 8;
constexpr int kWidest = 2;

template <int kRows, int kVectors>
void sum_tile(const GemmSteps& s, const GemmTile& t, int first) {
  __m256i sums[kRows][kVectors];
  const uint8_t* x[kRows];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) {
      sums[r][v] = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(t.correction + kUnit * v));
    }
  }
  const int8_t* w = s.weights;
  for (int32_t run = 0; run < s.counts[0]; ++run) {
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) x[r] = t.x[first + r] + t.x_offset + s.steps[2 * run];
    const ptrdiff_t end = ptrdiff_t{s.steps[2 * run + 1]} * 4;
    for (ptrdiff_t k = 0; k < end; k += 4) {
      __m256i weights[kVectors];
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) {
        weights[v] = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(w + 32 * v));
      }
      w += 32 * kVectors;
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        int32_t bytes;
        std::memcpy(&bytes, x[r] + k, 4);
        const __m256i four = _mm256_set1_epi32(bytes);
#pragma GCC unroll 2
        for (int v = 0; v < kVectors; ++v) sums[r][v] = dot(sums[r][v], four, weights[v]);
      }
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) {
      int32_t* const to = t.sums + ((first + r) * kVectors + v) * kUnit;
      _mm256_store_si256(reinterpret_cast<__m256i*>(to), sums[r][v]);
    }
  }
}

template <int kVectors>
void sum_rows(const GemmSteps& s, const GemmTile& t) {
  int row = 0;
  for (; row + 6 <= t.rows; row += 6) sum_tile<6, kVectors>(s, t, row);
  switch (t.rows - row) {
    case 5: return sum_tile<5, kVectors>(s, t, row);
    case 4: return sum_tile<4, kVectors>(s, t, row);
    case 3: return sum_tile<3, kVectors>(s, t, row);
    case 2: return sum_tile<2, kVectors>(s, t, row);
    case 1: return sum_tile<1, kVectors>(s, t, row);
    default: return;
  }
}

void sum(const GemmSteps& s, const GemmTile& t) {
  return s.width == kUnit ? sum_rows<1>(s, t) : sum_rows<2>(s, t);
}

void finish(const Epilogue& e, const GemmRows& rows) { gemm_avx2.finish(e, rows); }

}  // namespace

const GemmOps gemm_avxvnni = {kUnit, kWidest, false, {12, 12, 0, 0}, 0, sum, finish};

}  // namespace intact
#endif
