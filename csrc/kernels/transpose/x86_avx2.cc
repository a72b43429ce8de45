// Squares in registers; three rows, the planes of a picture, by shuffles.
#include "kernels/transpose/transpose.h"

#if INTACT_ARCH_X86
#include <immintrin.h>

#include <cstring>

namespace intact {
namespace {

inline __m128i load(const uint8_t* p) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p)); }
inline void store(uint8_t* p, __m128i v) { _mm_storeu_si128(reinterpret_cast<__m128i*>(p), v); }

// Four times: row i meets row i + 8, each pair of results standing where the next round wants it.
inline void turn_16(__m128i (&v)[16]) {
#pragma GCC unroll 4
  for (int round = 0; round < 4; ++round) {
    __m128i t[16];
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i) {
      t[2 * i] = _mm_unpacklo_epi8(v[i], v[i + 8]);
      t[2 * i + 1] = _mm_unpackhi_epi8(v[i], v[i + 8]);
    }
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i) v[i] = t[i];
  }
}

inline void square_16(const uint8_t* x, ptrdiff_t x_pitch, uint8_t* y, ptrdiff_t y_pitch) {
  __m128i v[16];
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i) v[i] = load(x + i * x_pitch);
  turn_16(v);
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i) store(y + i * y_pitch, v[i]);
}

// At most 16 rows and columns.
inline void corner(const uint8_t* x, ptrdiff_t x_pitch, size_t rows, size_t columns, uint8_t* y,
                   ptrdiff_t y_pitch) {
  uint8_t from[16][16] = {}, to[16][16];
  for (size_t r = 0; r < rows; ++r) std::memcpy(from[r], x + static_cast<ptrdiff_t>(r) * x_pitch, columns);
  square_16(from[0], 16, to[0], 16);
  for (size_t c = 0; c < columns; ++c) std::memcpy(y + static_cast<ptrdiff_t>(c) * y_pitch, to[c], rows);
}

// 16 columns of 3 rows to 48 bytes.
inline void three_by_16(const uint8_t* x, ptrdiff_t x_pitch, uint8_t* y) {
  const __m128i rows[3] = {load(x), load(x + x_pitch), load(x + 2 * x_pitch)};
  // Byte 16 * part + i of the result is byte (16 * part + i) / 3 of row (16 * part + i) % 3.
#define INTACT_FROM(part, row, i) \
  ((16 * (part) + (i)) % 3 == (row) ? static_cast<char>((16 * (part) + (i)) / 3) : char{-1})
#define INTACT_MASK(part, row)                                                                      \
  _mm_setr_epi8(INTACT_FROM(part, row, 0), INTACT_FROM(part, row, 1), INTACT_FROM(part, row, 2),    \
                INTACT_FROM(part, row, 3), INTACT_FROM(part, row, 4), INTACT_FROM(part, row, 5),    \
                INTACT_FROM(part, row, 6), INTACT_FROM(part, row, 7), INTACT_FROM(part, row, 8),    \
                INTACT_FROM(part, row, 9), INTACT_FROM(part, row, 10), INTACT_FROM(part, row, 11),  \
                INTACT_FROM(part, row, 12), INTACT_FROM(part, row, 13), INTACT_FROM(part, row, 14), \
                INTACT_FROM(part, row, 15))
#define INTACT_PART(part)                                                                           \
  store(y + 16 * (part), _mm_or_si128(_mm_shuffle_epi8(rows[0], INTACT_MASK(part, 0)),              \
                                      _mm_or_si128(_mm_shuffle_epi8(rows[1], INTACT_MASK(part, 1)), \
                                                   _mm_shuffle_epi8(rows[2], INTACT_MASK(part, 2)))))
  INTACT_PART(0);
  INTACT_PART(1);
  INTACT_PART(2);
#undef INTACT_PART
#undef INTACT_MASK
#undef INTACT_FROM
}

void three_rows(const uint8_t* x, ptrdiff_t x_pitch, size_t columns, uint8_t* y) {
  size_t c = 0;
  for (; c + 16 <= columns; c += 16) three_by_16(x + c, x_pitch, y + 3 * c);
  for (; c < columns; ++c) {
    const uint8_t* from = x + c;
    for (int r = 0; r < 3; ++r) y[3 * c + static_cast<size_t>(r)] = from[r * x_pitch];
  }
}

void bytes(const uint8_t* x, ptrdiff_t x_pitch, size_t rows, size_t columns, uint8_t* y, ptrdiff_t y_pitch) {
  if (rows == 3 && y_pitch == 3) return three_rows(x, x_pitch, columns, y);
  for (size_t r = 0; r < rows; r += 16) {
    const size_t high = rows - r < 16 ? rows - r : 16;
    for (size_t c = 0; c < columns; c += 16) {
      const size_t wide = columns - c < 16 ? columns - c : 16;
      const uint8_t* from = x + static_cast<ptrdiff_t>(r) * x_pitch + c;
      uint8_t* to = y + static_cast<ptrdiff_t>(c) * y_pitch + r;
      if (high == 16 && wide == 16) {
        square_16(from, x_pitch, to, y_pitch);
      } else {
        corner(from, x_pitch, high, wide, to, y_pitch);
      }
    }
  }
}

inline void square_4(const uint8_t* x, ptrdiff_t x_pitch, uint8_t* y, ptrdiff_t y_pitch) {
  const __m128i a = load(x), b = load(x + x_pitch), c = load(x + 2 * x_pitch), d = load(x + 3 * x_pitch);
  const __m128i ab_low = _mm_unpacklo_epi32(a, b), ab_high = _mm_unpackhi_epi32(a, b);
  const __m128i cd_low = _mm_unpacklo_epi32(c, d), cd_high = _mm_unpackhi_epi32(c, d);
  store(y, _mm_unpacklo_epi64(ab_low, cd_low));
  store(y + y_pitch, _mm_unpackhi_epi64(ab_low, cd_low));
  store(y + 2 * y_pitch, _mm_unpacklo_epi64(ab_high, cd_high));
  store(y + 3 * y_pitch, _mm_unpackhi_epi64(ab_high, cd_high));
}

void words(const uint8_t* x, ptrdiff_t x_pitch, size_t rows, size_t columns, uint8_t* y, ptrdiff_t y_pitch) {
  for (size_t r = 0; r < rows; r += 4) {
    for (size_t c = 0; c < columns; c += 4) {
      const uint8_t* from = x + static_cast<ptrdiff_t>(r) * x_pitch + 4 * c;
      uint8_t* to = y + static_cast<ptrdiff_t>(c) * y_pitch + 4 * r;
      if (rows - r >= 4 && columns - c >= 4) {
        square_4(from, x_pitch, to, y_pitch);
        continue;
      }
      for (size_t i = 0; i < 4 && i < rows - r; ++i) {
        for (size_t j = 0; j < 4 && j < columns - c; ++j) {
          std::memcpy(to + static_cast<ptrdiff_t>(j) * y_pitch + 4 * i,
                      from + static_cast<ptrdiff_t>(i) * x_pitch + 4 * j, 4);
        }
      }
    }
  }
}

}  // namespace

const TransposeOps transpose_avx2 = {bytes, words};

}  // namespace intact
#endif
