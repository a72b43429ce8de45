// 16-bit numbers, zero points subtracted: vpmaddwd is exact for any pair of codes, where vpmaddubsw is not.
#include "kernels/matmul/words.h"

#if INTACT_ARCH_X86
#include <immintrin.h>

#include <cstring>

namespace intact {
namespace {

constexpr size_t kRows = 4, kColumns = 16;

inline __m256i pair_at(const int16_t* a) {
  int32_t pair;
  std::memcpy(&pair, a, sizeof pair);
  return _mm256_set1_epi32(pair);
}

template <size_t rows>
void tile_of(const int16_t* a, const int32_t* a_terms, const int16_t* b, const int32_t* b_terms, size_t k,
             int32_t* sums) {
  __m256i acc[rows][2];
  for (size_t i = 0; i < rows; ++i) {
    for (size_t v = 0; v < 2; ++v) {
      const __m256i term = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(b_terms + 8 * v));
      acc[i][v] = _mm256_add_epi32(term, _mm256_set1_epi32(a_terms[i]));
    }
  }
  for (size_t p = 0; p < k; p += 2, b += 2 * kColumns) {
    const __m256i b0 = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(b));
    const __m256i b1 = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(b + kColumns));
    for (size_t i = 0; i < rows; ++i) {
      const __m256i pair = pair_at(a + i * k + p);
      acc[i][0] = _mm256_add_epi32(acc[i][0], _mm256_madd_epi16(pair, b0));
      acc[i][1] = _mm256_add_epi32(acc[i][1], _mm256_madd_epi16(pair, b1));
    }
  }
  for (size_t i = 0; i < rows; ++i) {
    for (size_t v = 0; v < 2; ++v) {
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(sums + i * kColumns + 8 * v), acc[i][v]);
    }
  }
}

void tile(const void* a, const int32_t* a_terms, size_t rows, const void* b, const int32_t* b_terms,
          size_t k, int32_t* sums) {
  constexpr decltype(&tile_of<1>) kTiles[kRows] = {tile_of<1>, tile_of<2>, tile_of<3>, tile_of<4>};
  kTiles[rows - 1](static_cast<const int16_t*>(a), a_terms, static_cast<const int16_t*>(b), b_terms, k, sums);
}

inline __m256 real8(const int32_t* sums, __m256 multiplier) {
  const __m256i acc = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(sums));
  return _mm256_add_ps(_mm256_mul_ps(_mm256_cvtepi32_ps(acc), multiplier), _mm256_setzero_ps());
}

// Sums lie in whole tiles, so that reading 8 of them is always allowed.
void codes(const int32_t* sums, size_t n, float multiplier, const ByteGrid& g, uint8_t* y) {
  const __m256 m = _mm256_set1_ps(multiplier);
  const __m256 low = _mm256_set1_ps(static_cast<float>(g.low - g.zero));
  const __m256 high = _mm256_set1_ps(static_cast<float>(g.high - g.zero));
  for (size_t i = 0; i < n; i += 8) {
    const __m256 steps = _mm256_min_ps(_mm256_max_ps(real8(sums + i, m), low), high);
    const __m256i code = _mm256_add_epi32(_mm256_cvtps_epi32(steps), _mm256_set1_epi32(g.zero));
    const __m128i words = _mm_packs_epi32(_mm256_castsi256_si128(code), _mm256_extracti128_si256(code, 1));
    const uint64_t bytes = static_cast<uint64_t>(_mm_cvtsi128_si64(_mm_packus_epi16(words, words)));
    std::memcpy(y + i, &bytes, n - i < 8 ? n - i : 8);
  }
}

void reals(const int32_t* sums, size_t n, float multiplier, float low, float high, float* y) {
  const __m256 m = _mm256_set1_ps(multiplier), least = _mm256_set1_ps(low), most = _mm256_set1_ps(high);
  for (size_t i = 0; i < n; i += 8) {
    alignas(32) float v[8];
    _mm256_store_ps(v, _mm256_min_ps(_mm256_max_ps(real8(sums + i, m), least), most));
    std::memcpy(y + i, v, (n - i < 8 ? n - i : 8) * sizeof(float));
  }
}

}  // namespace

const MatMulOps matmul_avx2 = {kRows,           kColumns,
                               2,               sizeof(int16_t),
                               pack_words_a<2>, pack_words_b<2, kColumns>,
                               tile,            codes,
                               reals};

}  // namespace intact
#endif
