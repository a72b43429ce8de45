// vpdpbusd: bytes of a as they are, those of b with their top bit turned, which makes them b - 128 in int8:
//
//   sum (a - za)(b - zb) = sum a (b - 128)  - (zb - 128) sum a  - za sum (b - 128)  + k za (zb - 128)
//
// Behind the end of k, a is 0 and b - 128 is 0.
#include "kernels/matmul/matmul.h"

#if INTACT_ARCH_X86
#include <immintrin.h>

#include <cstring>

#include "kernels/matmul/pack_any.h"

namespace intact {
namespace {

constexpr size_t kRows = 4, kColumns = 64, kStep = kColumns * 4;
constexpr int kVectors = kColumns / 16;

inline uint64_t first(size_t n) { return n >= 64 ? ~uint64_t{0} : (uint64_t{1} << n) - 1; }

void pack_a(const MatMulSide& a, const MatMulZeros& zeros, void* packed, int32_t* terms) {
  auto* to = static_cast<uint8_t*>(packed);
  const size_t pitch = (a.k + 3) / 4 * 4;
  for (size_t i = 0; i < a.lines; ++i, to += pitch) {
    const uint8_t* from = a.codes + static_cast<ptrdiff_t>(i) * a.line;
    if (a.step == 1) {
      size_t k = 0;
      for (; k + 64 <= a.k; k += 64) _mm512_storeu_si512(to + k, _mm512_loadu_si512(from + k));
      if (k < a.k) {
        const __m512i codes = _mm512_maskz_loadu_epi8(first(a.k - k), from + k);
        _mm512_mask_storeu_epi8(to + k, first(pitch - k), codes);
      }
    } else {
      for (size_t k = 0; k < a.k; ++k) to[k] = from[static_cast<ptrdiff_t>(k) * a.step];
      std::memset(to + a.k, 0, pitch - a.k);
    }
    terms[i] = 0;
    if (zeros.b == 128) continue;
    __m512i sum = _mm512_setzero_si512();
    for (size_t k = 0; k < pitch; k += 64) {
      const __m512i codes = _mm512_maskz_loadu_epi8(first(pitch - k), to + k);
      sum = _mm512_dpbusd_epi32(sum, codes, _mm512_set1_epi8(1));
    }
    const auto total = static_cast<uint32_t>(_mm512_reduce_add_epi32(sum));
    terms[i] = static_cast<int32_t>(static_cast<uint32_t>(128 - zeros.b) * total);
  }
}

// Four rows of 64 columns as 64 columns of four: what vpdpbusd wants of b.
inline void interleave(const __m512i (&r)[4], uint8_t* to) {
  const __m512i low01 = _mm512_unpacklo_epi8(r[0], r[1]), high01 = _mm512_unpackhi_epi8(r[0], r[1]);
  const __m512i low23 = _mm512_unpacklo_epi8(r[2], r[3]), high23 = _mm512_unpackhi_epi8(r[2], r[3]);
  // 128-bit lane L of u[i] has columns 16 L + 4 i to 16 L + 4 i + 3.
  const __m512i u[4] = {_mm512_unpacklo_epi16(low01, low23), _mm512_unpackhi_epi16(low01, low23),
                        _mm512_unpacklo_epi16(high01, high23), _mm512_unpackhi_epi16(high01, high23)};
  const __m512i a = _mm512_shuffle_i32x4(u[0], u[1], 0x44), b = _mm512_shuffle_i32x4(u[2], u[3], 0x44);
  const __m512i c = _mm512_shuffle_i32x4(u[0], u[1], 0xee), d = _mm512_shuffle_i32x4(u[2], u[3], 0xee);
  _mm512_storeu_si512(to, _mm512_shuffle_i32x4(a, b, 0x88));
  _mm512_storeu_si512(to + 64, _mm512_shuffle_i32x4(a, b, 0xdd));
  _mm512_storeu_si512(to + 128, _mm512_shuffle_i32x4(c, d, 0x88));
  _mm512_storeu_si512(to + 192, _mm512_shuffle_i32x4(c, d, 0xdd));
}

// Columns are neighbours.
void pack_rows(const MatMulSide& b, uint8_t* to) {
  const __m512i turn = _mm512_set1_epi8(static_cast<char>(0x80));
  const uint64_t columns = first(b.lines);
  for (size_t k = 0; k < b.k; k += 4, to += kStep) {
    __m512i r[4];
    for (size_t i = 0; i < 4; ++i) {
      const uint8_t* from = b.codes + static_cast<ptrdiff_t>(k + i) * b.step;
      const __m512i row = k + i < b.k ? _mm512_mask_loadu_epi8(turn, columns, from) : turn;
      r[i] = _mm512_xor_si512(row, turn);
    }
    interleave(r, to);
  }
}

// 16 x 16 numbers of 32 bits, rows for columns.
inline void transpose(__m512i (&r)[16]) {
  __m512i t[16];
  for (int i = 0; i < 16; i += 2) {
    t[i] = _mm512_unpacklo_epi32(r[i], r[i + 1]);
    t[i + 1] = _mm512_unpackhi_epi32(r[i], r[i + 1]);
  }
  for (int i = 0; i < 16; i += 4) {
    r[i] = _mm512_unpacklo_epi64(t[i], t[i + 2]);
    r[i + 1] = _mm512_unpackhi_epi64(t[i], t[i + 2]);
    r[i + 2] = _mm512_unpacklo_epi64(t[i + 1], t[i + 3]);
    r[i + 3] = _mm512_unpackhi_epi64(t[i + 1], t[i + 3]);
  }
  for (int i = 0; i < 4; ++i) {
    t[i] = _mm512_shuffle_i32x4(r[i], r[i + 4], 0x88);
    t[i + 4] = _mm512_shuffle_i32x4(r[i], r[i + 4], 0xdd);
    t[i + 8] = _mm512_shuffle_i32x4(r[i + 8], r[i + 12], 0x88);
    t[i + 12] = _mm512_shuffle_i32x4(r[i + 8], r[i + 12], 0xdd);
  }
  for (int i = 0; i < 4; ++i) {
    r[i] = _mm512_shuffle_i32x4(t[i], t[i + 8], 0x88);
    r[i + 4] = _mm512_shuffle_i32x4(t[i + 4], t[i + 12], 0x88);
    r[i + 8] = _mm512_shuffle_i32x4(t[i], t[i + 8], 0xdd);
    r[i + 12] = _mm512_shuffle_i32x4(t[i + 4], t[i + 12], 0xdd);
  }
}

// Each column's codes are neighbours: 16 columns of 64 codes at a time.
void pack_columns(const MatMulSide& b, uint8_t* to) {
  const __m512i turn = _mm512_set1_epi8(static_cast<char>(0x80));
  for (size_t j = 0; j < kColumns; j += 16) {
    for (size_t k = 0; k < b.k; k += 64) {
      const uint64_t codes = first(b.k - k);
      __m512i r[16];
      for (size_t i = 0; i < 16; ++i) {
        const uint8_t* from = b.codes + static_cast<ptrdiff_t>(j + i) * b.line + static_cast<ptrdiff_t>(k);
        const __m512i column = j + i < b.lines ? _mm512_mask_loadu_epi8(turn, codes, from) : turn;
        r[i] = _mm512_xor_si512(column, turn);
      }
      transpose(r);
      const size_t steps = b.k - k >= 64 ? 16 : (b.k - k + 3) / 4;
      for (size_t i = 0; i < steps; ++i) _mm512_storeu_si512(to + (k / 4 + i) * kStep + j * 4, r[i]);
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
  for (int v = 0; v < kVectors; ++v) {
    __m512i sum = _mm512_setzero_si512();
    for (size_t k = 0; zeros.a != 0 && k < b.k; k += 4) {
      sum = _mm512_dpbusd_epi32(sum, _mm512_set1_epi8(1), _mm512_loadu_si512(to + k * kColumns + 64 * v));
    }
    const __m512i all = _mm512_mullo_epi32(sum, _mm512_set1_epi32(-zeros.a));
    _mm512_storeu_si512(terms + 16 * v,
                        _mm512_add_epi32(all, _mm512_set1_epi32(static_cast<int32_t>(constant))));
  }
}

inline __m512i four_at(const uint8_t* a) {
  int32_t four;
  std::memcpy(&four, a, sizeof four);
  return _mm512_set1_epi32(four);
}

template <int rows>
void tile_of(const uint8_t* a, const int32_t* a_terms, const uint8_t* b, const int32_t* b_terms, size_t k,
             int32_t* sums) {
  __m512i acc[rows][kVectors];
#pragma GCC unroll 8
  for (int i = 0; i < rows; ++i) {
    const __m512i term = _mm512_set1_epi32(a_terms[i]);
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      acc[i][v] = _mm512_add_epi32(_mm512_loadu_si512(b_terms + 16 * v), term);
    }
  }
  for (size_t p = 0; p < k; p += 4, b += kStep) {
    __m512i panel[kVectors];
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) panel[v] = _mm512_load_si512(b + 64 * v);
#pragma GCC unroll 8
    for (int i = 0; i < rows; ++i) {
      const __m512i four = four_at(a + static_cast<size_t>(i) * k + p);
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) acc[i][v] = _mm512_dpbusd_epi32(acc[i][v], four, panel[v]);
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < rows; ++i) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      _mm512_store_si512(sums + static_cast<size_t>(i) * kColumns + 16 * v, acc[i][v]);
    }
  }
}

void tile(const void* a, const int32_t* a_terms, size_t rows, const void* b, const int32_t* b_terms, size_t k,
          int32_t* sums) {
  constexpr decltype(&tile_of<1>) kTiles[kRows] = {tile_of<1>, tile_of<2>, tile_of<3>, tile_of<4>};
  kTiles[rows - 1](static_cast<const uint8_t*>(a), a_terms, static_cast<const uint8_t*>(b), b_terms, k, sums);
}

inline __m512 real16(const int32_t* sums, __m512 multiplier) {
  const __m512 acc = _mm512_cvtepi32_ps(_mm512_loadu_si512(sums));
  return _mm512_add_ps(_mm512_mul_ps(acc, multiplier), _mm512_setzero_ps());
}

inline __mmask16 part(size_t n) { return static_cast<__mmask16>(first(n)); }

// Sums lie in whole tiles, so that reading 16 of them is always allowed.
void codes(const int32_t* sums, size_t n, float multiplier, const Divisor& d, const ByteGrid& g, uint8_t* y) {
  const __m512 inverse = _mm512_set1_ps(d.high), rest = _mm512_set1_ps(d.low);
  const __m512 m = _mm512_set1_ps(multiplier);
  const __m512 low = _mm512_set1_ps(static_cast<float>(g.low - g.zero));
  const __m512 high = _mm512_set1_ps(static_cast<float>(g.high - g.zero));
  const __m512i zero = _mm512_set1_epi32(g.zero);
  const auto code16 = [&](size_t i) {
    const __m512 real = real16(sums + i, m);
    const __m512 quotient = _mm512_fmadd_ps(real, inverse, _mm512_mul_ps(real, rest));  // base/divisor.h
    const __m512 steps = _mm512_min_ps(_mm512_max_ps(quotient, low), high);
    return _mm512_add_epi32(_mm512_cvtps_epi32(steps), zero);
  };
  size_t i = 0;
  for (; i + 64 <= n; i += 64) {
    const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    const __m512i ab = _mm512_packs_epi32(code16(i), code16(i + 16));
    const __m512i cd = _mm512_packs_epi32(code16(i + 32), code16(i + 48));
    _mm512_storeu_si512(y + i, _mm512_permutexvar_epi32(order, _mm512_packus_epi16(ab, cd)));
  }
  for (; i < n; i += 16) _mm512_mask_cvtepi32_storeu_epi8(y + i, part(n - i), code16(i));
}

void floats(const int32_t* sums, size_t n, const MatMulReals& r, float* y) {
  const __m512 m = _mm512_set1_ps(r.multiplier), gain = _mm512_set1_ps(r.gain);
  const __m512 quotient = _mm512_set1_ps(r.quotient);
  const __m512 least = _mm512_set1_ps(r.low), most = _mm512_set1_ps(r.high);
  const bool divides = r.quotient != 1;  // which is slow
  const auto real = [&](size_t i) {
    __m512 v = _mm512_mul_ps(real16(sums + i, m), gain);
    if (divides) v = _mm512_div_ps(v, quotient);
    return _mm512_min_ps(most, _mm512_max_ps(least, v));
  };
  size_t i = 0;
  for (; i + 64 <= n; i += 64) {
    for (size_t v = 0; v < 64; v += 16) _mm512_storeu_ps(y + i + v, real(i + v));
  }
  for (; i < n; i += 16) _mm512_mask_storeu_ps(y + i, part(n - i), real(i));
}

}  // namespace

const MatMulOps matmul_vnni = {kRows, kColumns, 4, 1, pack_a, pack_b, tile, codes, floats};

}  // namespace intact
#endif
