// The ends of a tile of sums in registers: sums are stored, or become codes in place. For x86_avx2.cc
// alone.
#pragma once

#include <immintrin.h>

#include "base/inline.h"
#include "kernels/gemm/gemm.h"

namespace intact {
namespace {

// Rows [first, first + kRows) of t.sums.
struct KeepSums {
  int32_t* sums;

  template <int kRows, int kVectors>
  INTACT_INLINE void operator()(const __m256i (&from)[kRows][kVectors], int first) const {
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) {
        int32_t* const to = sums + 8 * ((first + r) * kVectors + v);
        _mm256_store_si256(reinterpret_cast<__m256i*>(to), from[r][v]);
      }
    }
  }
};

// Does as finish_codes of x86_avx2_finish.h, for whole panels.
class Codes {
 public:
  Codes(const Epilogue& e, const GemmRows& rows)
      : t_(rows),
        has_residual_(e.has_residual),
        divides_(e.divides || e.has_residual),
        residual_zero_point_(_mm256_set1_ps(static_cast<float>(e.residual_zero_point))),
        residual_multiplier_(_mm256_set1_ps(e.residual_multiplier)),
        high_inverse_(_mm256_set1_ps(e.divisor.high)),
        low_inverse_(_mm256_set1_ps(e.divisor.low)),
        zero_point_(_mm256_set1_epi16(static_cast<int16_t>(e.zero_point))),
        low_(_mm256_set1_epi8(static_cast<char>(e.low))),
        high_(_mm256_set1_epi8(static_cast<char>(e.high))),
        order_(_mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7)) {}

  // Four vectors of codes at a time fill one of bytes.
  template <int kRows, int kVectors>
  INTACT_INLINE void operator()(const __m256i (&sums)[kRows][kVectors], int first) const {
    constexpr int kAll = kRows * kVectors;
#pragma GCC unroll 4
    for (int from = 0; from < kAll; from += 4) {
      __m256i words[2];
#pragma GCC unroll 2
      for (int i = 0; i < 2; ++i) {
        if (from + 2 * i >= kAll) {
          words[i] = words[0];
          continue;
        }
        const int a = from + 2 * i, b = a + 1 < kAll ? a + 1 : a;
        const __m256i codes = codes_of(sums[a / kVectors][a % kVectors], first + a / kVectors, a % kVectors);
        const __m256i others =
            a == b ? codes : codes_of(sums[b / kVectors][b % kVectors], first + b / kVectors, b % kVectors);
        words[i] = _mm256_packs_epi32(codes, others);
        words[i] = _mm256_adds_epi16(words[i], zero_point_);
      }
      __m256i bytes = _mm256_packus_epi16(words[0], words[1]);
      bytes = _mm256_max_epu8(bytes, low_);
      bytes = _mm256_permutevar8x32_epi32(_mm256_min_epu8(bytes, high_), order_);
      const int left = kAll - from;
      store<kVectors>(_mm256_castsi256_si128(bytes), first + from / kVectors, left);
      if (left > 2)
        store<kVectors>(_mm256_extracti128_si256(bytes, 1), first + (from + 2) / kVectors, left - 2);
    }
  }

 private:
  INTACT_INLINE __m256i codes_of(__m256i acc, int row, int v) const {
    const __m256 m = _mm256_loadu_ps(t_.multiplier + 8 * v), b = _mm256_loadu_ps(t_.bias + 8 * v);
    __m256 real = _mm256_add_ps(_mm256_mul_ps(_mm256_cvtepi32_ps(acc), m), b);
    if (has_residual_) {
      const auto* const from =
          reinterpret_cast<const __m128i*>(t_.residual[row] + t_.residual_offset + 8 * v);
      __m256 branch = _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadl_epi64(from)));
      branch = _mm256_sub_ps(branch, residual_zero_point_);
      real = _mm256_add_ps(real, _mm256_mul_ps(branch, residual_multiplier_));
    }
    if (divides_) {  // base/divisor.h
      real = _mm256_fmadd_ps(real, high_inverse_, _mm256_mul_ps(real, low_inverse_));
    }
    return _mm256_cvtps_epi32(real);
  }

  // One row of 16 channels or, if there are as many left, two of 8.
  template <int kVectors>
  INTACT_INLINE void store(__m128i bytes, int row, int left) const {
    uint8_t* const y = t_.y[row] + t_.y_offset;
    if constexpr (kVectors == 2) {
      _mm_storeu_si128(reinterpret_cast<__m128i*>(y), bytes);
    } else {
      _mm_storel_epi64(reinterpret_cast<__m128i*>(y), bytes);
      if (left < 2) return;
      _mm_storeh_pd(reinterpret_cast<double*>(t_.y[row + 1] + t_.y_offset), _mm_castsi128_pd(bytes));
    }
  }

  const GemmRows& t_;
  const bool has_residual_, divides_;
  const __m256 residual_zero_point_, residual_multiplier_, high_inverse_, low_inverse_;
  const __m256i zero_point_, low_, high_, order_;
};

}  // namespace
}  // namespace intact
