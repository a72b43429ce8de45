// Writes floats in steps of a scale as bytes, for AVX2 kernels; see to_byte. For x86_avx2.cc files only.
#pragma once

#include <immintrin.h>

#include "base/byte_grid.h"

namespace intact {

// Steps must not be NaN. What is too small for an integer becomes the smallest one, which is right; what is
// too large is bounded before it is rounded.
class Bytes8 {
 public:
  explicit Bytes8(const ByteGrid& g)
      : high_(_mm256_set1_ps(static_cast<float>(g.high - g.zero))),
        zero_(_mm256_set1_epi16(static_cast<int16_t>(g.zero))),
        low_(_mm_set1_epi8(static_cast<char>(g.low))) {}

  // 16 bytes of lanes 0..7 of a, then those of b.
  __m128i of(__m256 a, __m256 b) const {
    const __m256i words = _mm256_adds_epi16(_mm256_packs_epi32(rounded(a), rounded(b)), zero_);
    const __m256i ordered = _mm256_permute4x64_epi64(words, 0xd8);
    const __m128i bytes =
        _mm_packus_epi16(_mm256_castsi256_si128(ordered), _mm256_extracti128_si256(ordered, 1));
    return _mm_max_epu8(bytes, low_);
  }

 private:
  __m256i rounded(__m256 v) const { return _mm256_cvtps_epi32(_mm256_min_ps(v, high_)); }

  __m256 high_;
  __m256i zero_;
  __m128i low_;
};

}  // namespace intact
