// 16-bit numbers, zero points subtracted: vpmaddwd is exact for any pair of codes, where vpmaddubsw is not.
#include "kernels/matmul/words.h"

#if INTACT_ARCH_X86
#include <immintrin.h>

#include <cstring>

#include "kernels/matmul/transpose_avx2.h"

namespace intact {
namespace {

constexpr size_t kRows = 4, kColumns = 16;

// Whole panels whose columns' codes are neighbours, 8 columns of 16 codes at a time; false for others.
bool pack_columns(const MatMulSide& b, int32_t zero, int16_t* to) {
  if (b.step != 1 || b.lines != kColumns || b.k % 16 != 0) return false;
  const __m256i zeros = _mm256_set1_epi16(static_cast<int16_t>(zero));
  for (size_t j = 0; j < kColumns; j += 8) {
    for (size_t k = 0; k < b.k; k += 16) {
      __m256i r[8];
      for (size_t i = 0; i < 8; ++i) {
        const uint8_t* from = b.codes + static_cast<ptrdiff_t>(j + i) * b.line + static_cast<ptrdiff_t>(k);
        const __m256i codes = _mm256_cvtepu8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
        r[i] = _mm256_sub_epi16(codes, zeros);
      }
      transpose(r);
      for (size_t i = 0; i < 8; ++i) {
        int16_t* pairs = to + (k / 2 + i) * kColumns * 2 + j * 2;
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(pairs), r[i]);
      }
    }
  }
  return true;
}

// Whole panels whose rows are neighbours, two of them at a time; false for others.
bool pack_rows(const MatMulSide& b, int32_t zero, int16_t* to) {
  if (b.line != 1 || b.lines != kColumns || b.k % 2 != 0) return false;
  const __m256i zeros = _mm256_set1_epi16(static_cast<int16_t>(zero));
  for (size_t k = 0; k < b.k; k += 2, to += 2 * kColumns) {
    __m256i r[2];
    for (size_t i = 0; i < 2; ++i) {
      const uint8_t* from = b.codes + static_cast<ptrdiff_t>(k + i) * b.step;
      const __m256i codes = _mm256_cvtepu8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
      r[i] = _mm256_sub_epi16(codes, zeros);
    }
    const __m256i low = _mm256_unpacklo_epi16(r[0], r[1]), high = _mm256_unpackhi_epi16(r[0], r[1]);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm256_permute2x128_si256(low, high, 0x20));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + kColumns),
                        _mm256_permute2x128_si256(low, high, 0x31));
  }
  return true;
}

void pack_b(const MatMulSide& b, const MatMulZeros& zeros, void* packed, int32_t* terms) {
  auto* to = static_cast<int16_t*>(packed);
  if (pack_columns(b, zeros.b, to) || pack_rows(b, zeros.b, to)) {
    std::memset(terms, 0, kColumns * sizeof *terms);
  } else {
    pack_words_b<2, kColumns>(b, zeros, packed, terms);
  }
}

inline __m256i pair_at(const int16_t* a) {
  int32_t pair;
  std::memcpy(&pair, a, sizeof pair);
  return _mm256_set1_epi32(pair);
}

template <size_t rows>
void tile_of(const int16_t* a, const int32_t* a_terms, const int16_t* b, const int32_t* b_terms, size_t k,
             int32_t* sums) {
  __m256i acc[rows][2];
#pragma GCC unroll 4
  for (size_t i = 0; i < rows; ++i) {
#pragma GCC unroll 2
    for (size_t v = 0; v < 2; ++v) {
      const __m256i term = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(b_terms + 8 * v));
      acc[i][v] = _mm256_add_epi32(term, _mm256_set1_epi32(a_terms[i]));
    }
  }
  for (size_t p = 0; p < k; p += 2, b += 2 * kColumns) {
    const __m256i b0 = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(b));
    const __m256i b1 = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(b + kColumns));
#pragma GCC unroll 4
    for (size_t i = 0; i < rows; ++i) {
      const __m256i pair = pair_at(a + i * k + p);
      acc[i][0] = _mm256_add_epi32(acc[i][0], _mm256_madd_epi16(pair, b0));
      acc[i][1] = _mm256_add_epi32(acc[i][1], _mm256_madd_epi16(pair, b1));
    }
  }
#pragma GCC unroll 4
  for (size_t i = 0; i < rows; ++i) {
#pragma GCC unroll 2
    for (size_t v = 0; v < 2; ++v) {
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(sums + i * kColumns + 8 * v), acc[i][v]);
    }
  }
}

void tile(const void* a, const int32_t* a_terms, size_t rows, const void* b, const int32_t* b_terms, size_t k,
          int32_t* sums) {
  constexpr decltype(&tile_of<1>) kTiles[kRows] = {tile_of<1>, tile_of<2>, tile_of<3>, tile_of<4>};
  kTiles[rows - 1](static_cast<const int16_t*>(a), a_terms, static_cast<const int16_t*>(b), b_terms, k, sums);
}

// All ones in the first n of 8 lanes.
inline __m256i first(size_t n) {
  alignas(32) static constexpr int32_t kOnes[16] = {-1, -1, -1, -1, -1, -1, -1, -1};
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(kOnes + 8 - n));
}

inline __m256 real8(const int32_t* sums, __m256 multiplier) {
  const __m256i acc = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(sums));
  return _mm256_add_ps(_mm256_mul_ps(_mm256_cvtepi32_ps(acc), multiplier), _mm256_setzero_ps());
}

// Sums lie in whole tiles, so that reading 8 of them is always allowed.
void codes(const int32_t* sums, size_t n, float multiplier, const Divisor& d, const ByteGrid& g, uint8_t* y) {
  const __m256 inverse = _mm256_set1_ps(d.high), rest = _mm256_set1_ps(d.low);
  const __m256 m = _mm256_set1_ps(multiplier);
  const __m256 low = _mm256_set1_ps(static_cast<float>(g.low - g.zero));
  const __m256 high = _mm256_set1_ps(static_cast<float>(g.high - g.zero));
  for (size_t i = 0; i < n; i += 8) {
    const __m256 real = real8(sums + i, m);
    const __m256 quotient = _mm256_fmadd_ps(real, inverse, _mm256_mul_ps(real, rest));  // base/divisor.h
    const __m256 steps = _mm256_min_ps(_mm256_max_ps(quotient, low), high);
    const __m256i code = _mm256_add_epi32(_mm256_cvtps_epi32(steps), _mm256_set1_epi32(g.zero));
    const __m128i words = _mm_packs_epi32(_mm256_castsi256_si128(code), _mm256_extracti128_si256(code, 1));
    const __m128i bytes = _mm_packus_epi16(words, words);
    if (n - i >= 8) {
      _mm_storel_epi64(reinterpret_cast<__m128i*>(y + i), bytes);
    } else {
      std::memcpy(y + i, &bytes, n - i);
    }
  }
}

void floats(const int32_t* sums, size_t n, const MatMulReals& r, float* y) {
  const __m256 m = _mm256_set1_ps(r.multiplier), gain = _mm256_set1_ps(r.gain);
  const __m256 quotient = _mm256_set1_ps(r.quotient);
  const __m256 least = _mm256_set1_ps(r.low), most = _mm256_set1_ps(r.high);
  const bool divides = r.quotient != 1;  // which is slow
  for (size_t i = 0; i < n; i += 8) {
    __m256 v = _mm256_mul_ps(real8(sums + i, m), gain);
    if (divides) v = _mm256_div_ps(v, quotient);
    v = _mm256_min_ps(most, _mm256_max_ps(least, v));
    if (n - i >= 8) {
      _mm256_storeu_ps(y + i, v);
    } else {
      _mm256_maskstore_ps(y + i, first(n - i), v);
    }
  }
}

}  // namespace

const MatMulOps matmul_avx2 = {kRows,  kColumns, 2,     sizeof(int16_t), pack_words_a<2>,
                               pack_b, tile,     codes, floats};

}  // namespace intact
#endif
