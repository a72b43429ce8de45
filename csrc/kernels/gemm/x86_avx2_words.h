// Panels whose weights fit few 16-bit sums: bytes and weights as words of 16 bits, vpmaddwd into 32 bits,
// which is exact for all of them.
//
// Weights stay bytes, [step][channel][4], and are widened as they are read. A vector of words holds 4
// channels of a step, a row's four words stand in each quarter of another: every channel has two neighbouring
// lanes of sums, which are added up in the end.
#pragma once

#include <immintrin.h>

#include <cstdint>
#include <cstring>

#include "kernels/gemm/gemm.h"

// Sums are formed in the order written: the compiler would form all products first and keep them in memory.
#if defined(__GNUC__)
#define INTACT_IN_ORDER(x) __asm__("" : "+x"(x))
#define INTACT_IN_ORDER_4(a, b, c, d) __asm__("" : "+x"(a), "+x"(b), "+x"(c), "+x"(d))
#else
#define INTACT_IN_ORDER(x)
#define INTACT_IN_ORDER_4(a, b, c, d)
#endif

namespace intact {
namespace {

constexpr ptrdiff_t kAheadBytes = 2 << 10;  // of weights
constexpr int kWordRows = 6;  // of 8 channels: 12 vectors of sums

inline __m256i words_of(const int8_t* bytes) {
  return _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes)));
}

// 8 channels of kRows rows. kInOrder: steps lie as in the window. Every other row ends in order: with all
// rows free, or none, loops are slower.
template <int kRows, bool kInOrder>
void sum_word_tile(const GemmSteps& s, const GemmTile& t, int first, int channel) {
  __m256i low[kRows], high[kRows];
  const int16_t* x[kRows];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
    low[r] = high[r] = _mm256_setzero_si256();
    x[r] = t.words + (first + r) * t.pitch;
  }
  const int8_t* w = s.weights + 4 * channel;
  for (ptrdiff_t i = 0; i < s.words; ++i, w += 4 * s.width) {
    const __m256i a = words_of(w), b = words_of(w + 16);
    // One row waits for weights from afar: of its products, too few lines are in the processor's window.
    if constexpr (kRows == 1) _mm_prefetch(reinterpret_cast<const char*>(w) + kAheadBytes, _MM_HINT_T0);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      int64_t four;
      std::memcpy(&four, x[r] + (kInOrder ? 4 * i : s.steps[i]), sizeof four);
      const __m256i row = _mm256_set1_epi64x(four);
      low[r] = _mm256_add_epi32(low[r], _mm256_madd_epi16(row, a));
      high[r] = _mm256_add_epi32(high[r], _mm256_madd_epi16(row, b));
      if (r % 2 == 1) INTACT_IN_ORDER_4(low[r - 1], high[r - 1], low[r], high[r]);
    }
  }
  const __m256i correction = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(t.correction + channel));
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
    const __m256i sums = _mm256_permute4x64_epi64(_mm256_hadd_epi32(low[r], high[r]), 0xd8);
    auto* const to = reinterpret_cast<__m256i*>(t.sums + (first + r) * s.width + channel);
    _mm256_store_si256(to, _mm256_add_epi32(correction, sums));
  }
}

using SumWordTile = void (*)(const GemmSteps&, const GemmTile&, int, int);
template <bool kInOrder>
constexpr SumWordTile kSumWordTile[kWordRows] = {sum_word_tile<1, kInOrder>, sum_word_tile<2, kInOrder>,
                                                 sum_word_tile<3, kInOrder>, sum_word_tile<4, kInOrder>,
                                                 sum_word_tile<5, kInOrder>, sum_word_tile<6, kInOrder>};

inline void sum_words(const GemmSteps& s, const GemmTile& t) {
  const SumWordTile* const tiles = s.places == nullptr ? kSumWordTile<true> : kSumWordTile<false>;
  for (int channel = 0; channel < s.width; channel += 8) {
    for (int row = 0; row < t.rows; row += kWordRows) {
      const int rows = t.rows - row < kWordRows ? t.rows - row : kWordRows;
      tiles[rows - 1](s, t, row, channel);
    }
  }
}

inline void widen_run(const uint8_t* from, int bytes, __m256i base, int16_t* to) {
  int i = 0;
  for (; i + 16 <= bytes; i += 16) {
    const __m128i codes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i));
    const __m256i words = _mm256_sub_epi16(_mm256_cvtepu8_epi16(codes), base);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + i), words);
  }
  for (; i < bytes; i += 4) {
    int32_t four;
    std::memcpy(&four, from + i, sizeof four);
    const __m128i words = _mm_cvtepu8_epi16(_mm_cvtsi32_si128(four));
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
