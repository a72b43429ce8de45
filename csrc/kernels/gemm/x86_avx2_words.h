// Panels whose weights fit few 16-bit sums: bytes and weights as words of 16 bits, vpmaddwd into 32 bits,
// which is exact for all of them.
//
// Weights stay bytes, and are widened as they are read. A vector of words holds two bytes of each of 8
// channels, in the channel's own lane of 32 bits: bytes 0 and 2 of a step, or 1 and 3, its halves. Copies of
// windows have their words in that order.
#pragma once

#include <immintrin.h>

#include <cstdint>
#include <cstring>

#include "base/inline.h"
#include "kernels/gemm/gemm.h"

// Sums are formed in the order written: the compiler would form all products first and keep them in memory.
#if defined(__GNUC__)
#define INTACT_IN_ORDER(x) __asm__("" : "+x"(x))
#else
#define INTACT_IN_ORDER(x)
#endif

namespace intact {
namespace {

constexpr ptrdiff_t kAheadBytes = 2 << 10;  // of weights

// One half of the weights of 8 channels as words. kHalves: they lie in halves (packed.h), else
// [channel][4], and shifts of 16-bit lanes find them.
template <bool kHalves, int kHalf, int kVectors>
INTACT_INLINE __m256i words_of(const int8_t* w, int v) {
  if constexpr (kHalves) {
    const auto* const from = reinterpret_cast<const __m128i*>(w + 16 * (kHalf * kVectors + v));
    return _mm256_cvtepi8_epi16(_mm_loadu_si128(from));
  }
  const __m256i bytes = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(w + 32 * v));
  return _mm256_srai_epi16(kHalf == 0 ? _mm256_slli_epi16(bytes, 8) : bytes, 8);
}

// In place and in the order written: the compiler would run out of registers.
INTACT_INLINE void add_to(__m256i& sums, __m256i more) {
#if defined(__GNUC__)
  __asm__ volatile("vpaddd %1, %0, %0" : "+x"(sums) : "x"(more));
#else
  sums = _mm256_add_epi32(sums, more);
#endif
}

// kRows rows of a panel of kVectors. Panels in halves have their steps in the window's order.
template <int kRows, int kVectors, bool kHalves, class End>
INTACT_APART void sum_word_tile(const GemmSteps& s, const GemmTile& t, int first, const End& end) {
  __m256i sums[kRows][kVectors];
  const int16_t* x[kRows];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
    x[r] = t.words + (first + r) * t.pitch;
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) {
      sums[r][v] = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(t.correction + 8 * v));
    }
  }
  const int8_t* w = s.weights;
  const auto half = [&]<int kHalf>(ptrdiff_t offset) INTACT_INLINE_BODY {
    __m256i weights[kVectors];
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) {
      weights[v] = words_of<kHalves, kHalf, kVectors>(w, v);
    }
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      int32_t two;
      std::memcpy(&two, x[r] + offset + 2 * kHalf, sizeof two);
      const __m256i row = _mm256_set1_epi32(two);
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) {
        add_to(sums[r][v], _mm256_madd_epi16(row, weights[v]));
      }
    }
  };
  // Two steps at a time: one alone leaves ports idle, up to a fifth of the time (measured).
#pragma GCC unroll 2
  for (ptrdiff_t i = 0; i < s.words; ++i, w += 32 * kVectors) {
    // One row waits for weights from afar: of its products, too few lines are in the processor's window.
    if constexpr (kRows == 1) _mm_prefetch(reinterpret_cast<const char*>(w) + kAheadBytes, _MM_HINT_T0);
    const ptrdiff_t offset = kHalves ? 4 * i : s.steps[i];
    half.template operator()<0>(offset);
    half.template operator()<1>(offset);
  }
  end(sums, first);
}

template <int kVectors, bool kHalves, class End>
void sum_word_rows(const GemmSteps& s, const GemmTile& t, const End& end) {
  int row = 0;
  for (; row + 6 <= t.rows; row += 6) sum_word_tile<6, kVectors, kHalves>(s, t, row, end);
  if (row + 4 <= t.rows) {
    sum_word_tile<4, kVectors, kHalves>(s, t, row, end);
    row += 4;
  }
  if (row + 2 <= t.rows) {
    sum_word_tile<2, kVectors, kHalves>(s, t, row, end);
    row += 2;
  }
  if (row < t.rows) sum_word_tile<1, kVectors, kHalves>(s, t, row, end);
}

template <bool kHalves, class End>
void sum_words(const GemmSteps& s, const GemmTile& t, const End& end) {
  s.width == 8 ? sum_word_rows<1, kHalves>(s, t, end) : sum_word_rows<2, kHalves>(s, t, end);
}

// Bytes 0, 2, 1, 3 of every four.
inline __m128i in_halves(__m128i bytes) {
  return _mm_shuffle_epi8(bytes, _mm_setr_epi8(0, 2, 1, 3, 4, 6, 5, 7, 8, 10, 9, 11, 12, 14, 13, 15));
}

inline void widen_run(const uint8_t* from, int bytes, __m256i base, int16_t* to) {
  int i = 0;
  for (; i + 16 <= bytes; i += 16) {
    const __m128i codes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i));
    const __m256i words = _mm256_sub_epi16(_mm256_cvtepu8_epi16(in_halves(codes)), base);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + i), words);
  }
  if (i + 8 <= bytes) {
    const __m128i codes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(from + i));
    const __m128i words = _mm_sub_epi16(_mm_cvtepu8_epi16(in_halves(codes)), _mm256_castsi256_si128(base));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + i), words);
    i += 8;
  }
  if (i < bytes) {
    int32_t four;
    std::memcpy(&four, from + i, sizeof four);
    const __m128i words = _mm_cvtepu8_epi16(in_halves(_mm_cvtsi32_si128(four)));
    _mm_storel_epi64(reinterpret_cast<__m128i*>(to + i), _mm_sub_epi16(words, _mm256_castsi256_si128(base)));
  }
}

inline void widen(const GemmCopy& c, int16_t* words) {
  const __m256i base = _mm256_set1_epi16(static_cast<int16_t>(c.base));
  for (int row = 0; row < c.rows; ++row) {
    int16_t* to = words + row * c.pitch;
    for (int32_t run = 0; run < c.count; ++run) {
      const int bytes = 4 * c.runs[2 * run + 1];
      widen_run(c.x[row] + c.x_offset + c.runs[2 * run], bytes, base, to);
      to += bytes;
    }
  }
}

}  // namespace
}  // namespace intact
