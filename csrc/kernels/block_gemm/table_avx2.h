// Tables of 16 codes in registers of 32 bytes, whose places are looked up in both halves alike, and of 16
// floats in two registers.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "base/inline.h"
#include "base/vector/avx2.h"

namespace intact {
namespace {

struct TableAvx2 {
  static INTACT_INLINE __m256i load_table(const uint8_t* table) {
    return _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(table)));
  }
  static INTACT_INLINE __m256i look_up(__m256i table, __m256i places) {
    return _mm256_shuffle_epi8(table, places);
  }

  struct FloatTable {
    INTACT_INLINE explicit FloatTable(const float* table)
        : low(_mm256_loadu_ps(table)), high(_mm256_loadu_ps(table + 8)) {}
    INTACT_INLINE Avx2::Floats operator()(__m256i codes) const {
      const __m256 is_high = _mm256_castsi256_ps(_mm256_slli_epi32(codes, 28));  // by the sign
      return {_mm256_blendv_ps(_mm256_permutevar8x32_ps(low, codes), _mm256_permutevar8x32_ps(high, codes),
                               is_high)};
    }
    __m256 low, high;
  };
};

}  // namespace
}  // namespace intact
