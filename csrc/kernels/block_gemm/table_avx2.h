// Tables of 16 codes in registers of 32 bytes: their places are looked up in both halves alike.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "base/inline.h"

namespace intact {
namespace {

struct TableAvx2 {
  static INTACT_INLINE __m256i load_table(const uint8_t* table) {
    return _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(table)));
  }
  static INTACT_INLINE __m256i look_up(__m256i table, __m256i places) {
    return _mm256_shuffle_epi8(table, places);
  }
};

}  // namespace
}  // namespace intact
