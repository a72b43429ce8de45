// vpdpbusd on 256-bit registers, for machines that have it without AVX-512; sums and terms are those of
// x86_avx512.cc: bytes of a as they are, those of b with their top bit turned. Epilogues are those of AVX2.
#include "kernels/matmul/matmul.h"

#if INTACT_ARCH_X86 && defined(INTACT_AVXVNNI)
#include <cstring>

#include "base/x86_avxvnni.h"
#include "kernels/matmul/pack_any.h"
#include "kernels/matmul/transpose_avx2.h"

namespace intact {
namespace {

constexpr size_t kRows = 6, kVectors = 2, kColumns = 8 * kVectors, kStep = kColumns * 4;
constexpr char kTurn = static_cast<char>(0x80);

inline __m256i load(const void* from) { return _mm256_loadu_si256(static_cast<const __m256i*>(from)); }
inline void store(void* to, __m256i v) { _mm256_storeu_si256(static_cast<__m256i*>(to), v); }

inline int32_t sum_of(__m256i v) {
  __m128i s = _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
  s = _mm_add_epi32(s, _mm_shuffle_epi32(s, 0x4e));
  return _mm_cvtsi128_si32(_mm_add_epi32(s, _mm_shuffle_epi32(s, 0xb1)));
}

void pack_a(const MatMulSide& a, const MatMulZeros& zeros, void* packed, int32_t* terms) {
  auto* to = static_cast<uint8_t*>(packed);
  const size_t pitch = (a.k + 3) / 4 * 4;
  const __m256i ones = _mm256_set1_epi8(1);
  for (size_t i = 0; i < a.lines; ++i, to += pitch) {
    const uint8_t* from = a.codes + static_cast<ptrdiff_t>(i) * a.line;
    if (a.step == 1) {
      size_t k = 0;
      for (; k + 32 <= a.k; k += 32) store(to + k, load(from + k));
      if (k < a.k) std::memcpy(to + k, from + k, a.k - k);
    } else {
      for (size_t k = 0; k < a.k; ++k) to[k] = from[static_cast<ptrdiff_t>(k) * a.step];
    }
    for (size_t k = a.k; k < pitch; ++k) to[k] = 0;
    terms[i] = 0;
    if (zeros.b == 128) continue;
    __m256i sum = _mm256_setzero_si256();
    size_t k = 0;
    for (; k + 32 <= pitch; k += 32) sum = dot(sum, load(to + k), ones);
    if (k < pitch) {
      alignas(32) uint8_t rest[32] = {};
      std::memcpy(rest, to + k, pitch - k);
      sum = dot(sum, load(rest), ones);
    }
    const auto total = static_cast<uint32_t>(sum_of(sum));
    terms[i] = static_cast<int32_t>(static_cast<uint32_t>(128 - zeros.b) * total);
  }
}

// 16 neighbours, of which the first n exist; turned.
inline __m128i sixteen(const uint8_t* from, size_t n) {
  const __m128i turn = _mm_set1_epi8(kTurn);
  if (n >= 16) return _mm_xor_si128(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)), turn);
  alignas(16) uint8_t codes[16];
  std::memset(codes, kTurn, sizeof codes);
  std::memcpy(codes, from, n);
  return _mm_xor_si128(_mm_load_si128(reinterpret_cast<const __m128i*>(codes)), turn);
}

// Columns are neighbours: four rows of 16 of them become 16 columns of four.
void pack_rows(const MatMulSide& b, uint8_t* to) {
  for (size_t k = 0; k < b.k; k += 4, to += kStep) {
    __m128i r[4];
    for (size_t i = 0; i < 4; ++i) {
      const uint8_t* from = b.codes + static_cast<ptrdiff_t>(k + i) * b.step;
      r[i] = k + i < b.k ? sixteen(from, b.lines) : _mm_setzero_si128();
    }
    const __m128i low01 = _mm_unpacklo_epi8(r[0], r[1]), high01 = _mm_unpackhi_epi8(r[0], r[1]);
    const __m128i low23 = _mm_unpacklo_epi8(r[2], r[3]), high23 = _mm_unpackhi_epi8(r[2], r[3]);
    auto* const four = reinterpret_cast<__m128i*>(to);
    _mm_store_si128(four, _mm_unpacklo_epi16(low01, low23));
    _mm_store_si128(four + 1, _mm_unpackhi_epi16(low01, low23));
    _mm_store_si128(four + 2, _mm_unpacklo_epi16(high01, high23));
    _mm_store_si128(four + 3, _mm_unpackhi_epi16(high01, high23));
  }
}

// Each column's codes are neighbours: 8 columns of 32 codes at a time.
void pack_columns(const MatMulSide& b, uint8_t* to) {
  for (size_t j = 0; j < kColumns; j += 8) {
    for (size_t k = 0; k < b.k; k += 32) {
      const size_t left = b.k - k;
      __m256i r[8];
      for (size_t i = 0; i < 8; ++i) {
        const uint8_t* from = b.codes + static_cast<ptrdiff_t>(j + i) * b.line + static_cast<ptrdiff_t>(k);
        const bool exists = j + i < b.lines, more = exists && left > 16;
        const __m128i low = exists ? sixteen(from, left) : _mm_setzero_si128();
        r[i] = _mm256_setr_m128i(low, more ? sixteen(from + 16, left - 16) : _mm_setzero_si128());
      }
      transpose(r);
      const size_t steps = left >= 32 ? 8 : (left + 3) / 4;
      for (size_t i = 0; i < steps; ++i) store(to + (k / 4 + i) * kStep + j * 4, r[i]);
    }
  }
}

void pack_b(const MatMulSide& b, const MatMulZeros& zeros, void* packed, int32_t* terms) {
  auto* to = static_cast<uint8_t*>(packed);
  if (b.line == 1) {
    pack_rows(b, to);
  } else if (b.step == 1) {
    pack_columns(b, to);
  } else {
    pack_any<kColumns, 4, 0x80>(b, to);
  }
  const auto constant = static_cast<uint32_t>(b.k) * static_cast<uint32_t>(zeros.a * (zeros.b - 128));
  const __m256i ones = _mm256_set1_epi8(1), factor = _mm256_set1_epi32(-zeros.a);
  for (size_t v = 0; v < kVectors; ++v) {
    __m256i sum = _mm256_setzero_si256();
    for (size_t k = 0; zeros.a != 0 && k < b.k; k += 4) {
      sum = dot(sum, ones, load(to + k * kColumns + 32 * v));
    }
    const __m256i all = _mm256_mullo_epi32(sum, factor);
    store(terms + 8 * v, _mm256_add_epi32(all, _mm256_set1_epi32(static_cast<int32_t>(constant))));
  }
}

inline __m256i four_at(const uint8_t* a) {
  int32_t four;
  std::memcpy(&four, a, sizeof four);
  return _mm256_set1_epi32(four);
}

template <size_t rows>
void tile_of(const uint8_t* a, const int32_t* a_terms, const uint8_t* b, const int32_t* b_terms, size_t k,
             int32_t* sums) {
  __m256i acc[rows][kVectors];
#pragma GCC unroll 8
  for (size_t i = 0; i < rows; ++i) {
#pragma GCC unroll 2
    for (size_t v = 0; v < kVectors; ++v) {
      acc[i][v] = _mm256_add_epi32(load(b_terms + 8 * v), _mm256_set1_epi32(a_terms[i]));
    }
  }
  for (size_t p = 0; p < k; p += 4, b += kStep) {
    const __m256i b0 = load(b), b1 = load(b + 32);
#pragma GCC unroll 8
    for (size_t i = 0; i < rows; ++i) {
      const __m256i four = four_at(a + i * k + p);
      acc[i][0] = dot(acc[i][0], four, b0);
      acc[i][1] = dot(acc[i][1], four, b1);
    }
  }
#pragma GCC unroll 8
  for (size_t i = 0; i < rows; ++i) {
#pragma GCC unroll 2
    for (size_t v = 0; v < kVectors; ++v) store(sums + i * kColumns + 8 * v, acc[i][v]);
  }
}

void tile(const void* a, const int32_t* a_terms, size_t rows, const void* b, const int32_t* b_terms, size_t k,
          int32_t* sums) {
  constexpr decltype(&tile_of<1>) kTiles[kRows] = {tile_of<1>, tile_of<2>, tile_of<3>,
                                                   tile_of<4>, tile_of<5>, tile_of<6>};
  kTiles[rows - 1](static_cast<const uint8_t*>(a), a_terms, static_cast<const uint8_t*>(b), b_terms, k, sums);
}

void codes(const int32_t* sums, size_t n, float multiplier, const Divisor& divisor, const ByteGrid& grid,
           uint8_t* y) {
  matmul_avx2.codes(sums, n, multiplier, divisor, grid, y);
}

void floats(const int32_t* sums, size_t n, const MatMulReals& reals, float* y) {
  matmul_avx2.floats(sums, n, reals, y);
}

}  // namespace

const MatMulOps matmul_avxvnni = {kRows, kColumns, 4, 1, pack_a, pack_b, tile, codes, floats};

}  // namespace intact
#endif
