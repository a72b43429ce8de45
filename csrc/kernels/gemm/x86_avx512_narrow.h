// vpdpbusd on 256-bit registers, for layers of up to 8 channels: half of a wider register would be empty, and
// no machine forms fewer of these products in a cycle. For x86_avx512.cc alone.
#pragma once

#include <immintrin.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "kernels/gemm/gemm.h"
#include "kernels/gemm/x86_avx512_finish.h"
#include "kernels/gemm/x86_avx512_whole.h"

namespace intact {
namespace {
namespace narrow {

constexpr int kUnit = 8, kMostRows = 12;

INTACT_INLINE void pin([[maybe_unused]] __m256i& value) {
#if defined(__GNUC__)
  asm volatile("" : "+v"(value));
#endif
}

template <int kRows>
struct Sums {
  __m256i at[kRows];
};

template <int kRows>
INTACT_INLINE void products(const GemmSteps& s, const GemmTile& t, int first, Sums<kRows>& sums) {
  sums.at[0] = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(t.correction));
  each<kRows - 1>([&](auto r) INTACT_INLINE_BODY { sums.at[r + 1] = sums.at[0]; });
  const int8_t* w = s.weights;
  for (int32_t run = 0; run < s.counts[0]; ++run) {
    const uint8_t* x[kRows];
    each<kRows>([&](auto r) INTACT_INLINE_BODY { x[r] = t.x[first + r] + t.x_offset + s.steps[2 * run]; });
    const ptrdiff_t end = ptrdiff_t{s.steps[2 * run + 1]} * 4;
    for (ptrdiff_t k = 0; k < end; k += 4, w += 4 * kUnit) {
      const __m256i weights = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(w));
      each<kRows>([&](auto r) INTACT_INLINE_BODY {
        int32_t bytes;
        std::memcpy(&bytes, x[r] + k, 4);
        sums.at[r] = _mm256_dpbusd_epi32(sums.at[r], _mm256_set1_epi32(bytes), weights);
        pin(sums.at[r]);  // copied from register to register otherwise
      });
    }
  }
}

// Does as Codes of x86_avx512_whole.h, four rows at a time.
struct Codes {
  const GemmRows& t;
  const bool divides, has_residual;
  __m256i zero_point, low, high, order;
  __m256 multiplier, bias, residual_multiplier, residual_zero_point, high_inverse, low_inverse;
  __mmask16 mask;  // of the channels that exist

  Codes(const Epilogue& e, const GemmRows& rows)
      : t(rows),
        divides(e.divides || e.has_residual),
        has_residual(e.has_residual),
        zero_point(_mm256_set1_epi16(static_cast<int16_t>(e.zero_point))),
        low(_mm256_set1_epi8(static_cast<char>(e.low))),
        high(_mm256_set1_epi8(static_cast<char>(e.high))),
        order(_mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7)),
        multiplier(_mm256_loadu_ps(rows.multiplier)),
        bias(_mm256_loadu_ps(rows.bias)),
        residual_multiplier(_mm256_set1_ps(e.residual_multiplier)),
        residual_zero_point(_mm256_set1_ps(static_cast<float>(e.residual_zero_point))),
        high_inverse(_mm256_set1_ps(e.divisor.high)),
        low_inverse(_mm256_set1_ps(e.divisor.low)),
        mask(static_cast<__mmask16>((1u << rows.channels) - 1)) {}

  INTACT_INLINE __m256 real(__m256i sums) const {
    return _mm256_add_ps(_mm256_mul_ps(_mm256_cvtepi32_ps(sums), multiplier), bias);
  }

  INTACT_INLINE __m256 add(__m256 real, int row) const {
    const __m128i bytes = _mm_maskz_loadu_epi8(mask, t.residual[row] + t.residual_offset);
    const __m256 branch = _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(bytes));
    const __m256 from_zero = _mm256_sub_ps(branch, residual_zero_point);
    return _mm256_add_ps(real, _mm256_mul_ps(from_zero, residual_multiplier));
  }

  INTACT_INLINE __m256 quotient(__m256 x) const {  // base/divisor.h
    return _mm256_fmadd_ps(x, high_inverse, _mm256_mul_ps(x, low_inverse));
  }

  // Rows [r, r + 4) of the tile, as far as there are.
  template <int r, int kRows>
  INTACT_INLINE void write(const Sums<kRows>& sums, int row) const {
    constexpr int kCount = kRows - r < 4 ? kRows - r : 4;
    __m256 reals[4] = {};
    each<kCount>([&](auto i) INTACT_INLINE_BODY { reals[i] = real(sums.at[r + i]); });
    if (has_residual) each<kCount>([&](auto i) INTACT_INLINE_BODY { reals[i] = add(reals[i], row + i); });
    if (divides) each<kCount>([&](auto i) INTACT_INLINE_BODY { reals[i] = quotient(reals[i]); });
    __m256i codes[4];
    each<4>([&](auto i) INTACT_INLINE_BODY { codes[i] = _mm256_cvtps_epi32(reals[i]); });
    const __m256i ab = _mm256_adds_epi16(_mm256_packs_epi32(codes[0], codes[1]), zero_point);
    const __m256i cd = _mm256_adds_epi16(_mm256_packs_epi32(codes[2], codes[3]), zero_point);
    const __m256i held = _mm256_min_epu8(_mm256_max_epu8(_mm256_packus_epi16(ab, cd), low), high);
    const __m256i bytes = _mm256_permutevar8x32_epi32(held, order);
    each<4>([&](auto i) INTACT_INLINE_BODY {
      if constexpr (r + i < kRows) {
        const __m128i two = _mm256_extracti128_si256(bytes, i / 2);
        const __m128i one = i % 2 == 0 ? two : _mm_unpackhi_epi64(two, two);
        _mm_mask_storeu_epi8(t.y[row + i] + t.y_offset, mask, one);
      }
    });
  }
};

template <int kRows>
void whole_tile(const GemmSteps& s, const GemmTile& t, const Codes& codes, int first) {
  Sums<kRows> sums;
  products(s, t, first, sums);
  each<(kRows + 3) / 4>([&](auto four)
                            INTACT_INLINE_BODY { codes.template write<4 * four>(sums, first + 4 * four); });
}

template <int kRows>
void sum_tile(const GemmSteps& s, const GemmTile& t, int first) {
  Sums<kRows> sums;
  products(s, t, first, sums);
  each<kRows>([&](auto r) INTACT_INLINE_BODY {
    _mm256_store_si256(reinterpret_cast<__m256i*>(t.sums + (first + r) * kUnit), sums.at[r]);
  });
}

void sum(const GemmSteps& s, const GemmTile& t) {
  using Tile = void (*)(const GemmSteps&, const GemmTile&, int);
  const auto tiles = []<int... i>(std::integer_sequence<int, i...>) -> const Tile* {
    static constexpr Tile kAll[] = {sum_tile<i + 1>...};
    return kAll;
  }(std::make_integer_sequence<int, kMostRows>{});
  tiles[t.rows - 1](s, t, 0);
}

bool whole(const GemmSteps& s, const GemmTile& t, const Epilogue& e, const GemmRows& rows) {
  if (e.floats || e.function != nullptr || !e.bounded || rows.slopes != nullptr) return false;
  if (e.has_gain) return false;
  using Tile = void (*)(const GemmSteps&, const GemmTile&, const Codes&, int);
  const auto tiles = []<int... i>(std::integer_sequence<int, i...>) -> const Tile* {
    static constexpr Tile kAll[] = {whole_tile<i + 1>...};
    return kAll;
  }(std::make_integer_sequence<int, kMostRows>{});
  const Codes codes(e, rows);
  for (int row = 0; row < t.rows; row += kMostRows) {
    tiles[std::min(kMostRows, t.rows - row) - 1](s, t, codes, row);
  }
  return true;
}

void finish(const Epilogue& e, const GemmRows& rows) {
  e.function != nullptr&& has_few(e, rows) ? finish_function(e, rows) : gemm_avx2.finish(e, rows);
}

}  // namespace narrow
}  // namespace
}  // namespace intact
