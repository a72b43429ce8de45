// The loops of the family, once for every set that has squares of 16 bytes (V::Narrow of
// base/vector/vector.h): squares in registers; three rows, the planes of a picture, by turns.
#pragma once

#include <cstring>

#include "base/vector/vector.h"
#include "kernels/transpose/transpose.h"

namespace intact::transpose_loops {

// Four times: row i meets row i + 8, each pair of results standing where the next round wants it.
template <class V>
INTACT_INLINE void turn_16(typename V::Bytes (&v)[16]) {
  INTACT_UNROLL("GCC unroll 4")
  for (int round = 0; round < 4; ++round) {
    typename V::Bytes t[16];
    INTACT_UNROLL("GCC unroll 8")
    for (int i = 0; i < 8; ++i) {
      t[2 * i] = V::low8(v[i], v[i + 8]);
      t[2 * i + 1] = V::high8(v[i], v[i + 8]);
    }
    INTACT_UNROLL("GCC unroll 16")
    for (int i = 0; i < 16; ++i) v[i] = t[i];
  }
}

template <class V>
INTACT_INLINE void square_16(const uint8_t* x, ptrdiff_t x_pitch, uint8_t* y, ptrdiff_t y_pitch) {
  typename V::Bytes v[16];
  INTACT_UNROLL("GCC unroll 16")
  for (int i = 0; i < 16; ++i) v[i] = V::load_bytes(x + i * x_pitch);
  turn_16<V>(v);
  INTACT_UNROLL("GCC unroll 16")
  for (int i = 0; i < 16; ++i) V::store_bytes(y + i * y_pitch, v[i]);
}

// At most 16 rows and columns.
template <class V>
INTACT_INLINE void corner(const uint8_t* x, ptrdiff_t x_pitch, size_t rows, size_t columns, uint8_t* y,
                          ptrdiff_t y_pitch) {
  uint8_t from[16][16] = {}, to[16][16];
  for (size_t r = 0; r < rows; ++r) std::memcpy(from[r], x + static_cast<ptrdiff_t>(r) * x_pitch, columns);
  square_16<V>(from[0], 16, to[0], 16);
  for (size_t c = 0; c < columns; ++c) std::memcpy(y + static_cast<ptrdiff_t>(c) * y_pitch, to[c], rows);
}

template <class V>
void three_rows(const uint8_t* x, ptrdiff_t x_pitch, size_t columns, uint8_t* y) {
  size_t c = 0;
  for (; c + 16 <= columns; c += 16) {
    const uint8_t* from = x + c;
    V::store_threes(y + 3 * c, V::load_bytes(from), V::load_bytes(from + x_pitch),
                    V::load_bytes(from + 2 * x_pitch));
  }
  for (; c < columns; ++c) {
    const uint8_t* from = x + c;
    for (int r = 0; r < 3; ++r) y[3 * c + static_cast<size_t>(r)] = from[r * x_pitch];
  }
}

template <class V>
void bytes(const uint8_t* x, ptrdiff_t x_pitch, size_t rows, size_t columns, uint8_t* y, ptrdiff_t y_pitch) {
  if (rows == 3 && y_pitch == 3) return three_rows<V>(x, x_pitch, columns, y);
  for (size_t r = 0; r < rows; r += 16) {
    const size_t high = rows - r < 16 ? rows - r : 16;
    for (size_t c = 0; c < columns; c += 16) {
      const size_t wide = columns - c < 16 ? columns - c : 16;
      const uint8_t* from = x + static_cast<ptrdiff_t>(r) * x_pitch + c;
      uint8_t* to = y + static_cast<ptrdiff_t>(c) * y_pitch + r;
      if (high == 16 && wide == 16) {
        square_16<V>(from, x_pitch, to, y_pitch);
      } else {
        corner<V>(from, x_pitch, high, wide, to, y_pitch);
      }
    }
  }
}

template <class V>
INTACT_INLINE void square_4(const uint8_t* x, ptrdiff_t x_pitch, uint8_t* y, ptrdiff_t y_pitch) {
  const auto a = V::load_bytes(x), b = V::load_bytes(x + x_pitch);
  const auto c = V::load_bytes(x + 2 * x_pitch), d = V::load_bytes(x + 3 * x_pitch);
  const auto ab_low = V::low32(a, b), ab_high = V::high32(a, b);
  const auto cd_low = V::low32(c, d), cd_high = V::high32(c, d);
  V::store_bytes(y, V::low64(ab_low, cd_low));
  V::store_bytes(y + y_pitch, V::high64(ab_low, cd_low));
  V::store_bytes(y + 2 * y_pitch, V::low64(ab_high, cd_high));
  V::store_bytes(y + 3 * y_pitch, V::high64(ab_high, cd_high));
}

// kRows words of each column from one row of y on, and fewer words where less than a square is left.
template <size_t kRows>
INTACT_INLINE void few_rows(const uint8_t* x, ptrdiff_t x_pitch, size_t columns, uint8_t* y,
                            ptrdiff_t y_pitch) {
  for (size_t c = 0; c < columns; ++c, x += 4, y += y_pitch) {
    INTACT_UNROLL("GCC unroll 4")
    for (size_t r = 0; r < kRows; ++r) std::memcpy(y + 4 * r, x + static_cast<ptrdiff_t>(r) * x_pitch, 4);
  }
}

template <size_t kColumns>
INTACT_INLINE void few_columns(const uint8_t* x, ptrdiff_t x_pitch, size_t rows, uint8_t* y,
                               ptrdiff_t y_pitch) {
  for (size_t r = 0; r < rows; ++r, x += x_pitch, y += 4) {
    INTACT_UNROLL("GCC unroll 4")
    for (size_t c = 0; c < kColumns; ++c) std::memcpy(y + static_cast<ptrdiff_t>(c) * y_pitch, x + 4 * c, 4);
  }
}

// Squares, then the rows and columns that make none: the planes of a picture, or rows of three, are all such.
// `tall` does four columns of kTall rows.
template <class V, size_t kTall = 4, auto tall = square_4<V>>
void words(const uint8_t* x, ptrdiff_t x_pitch, size_t rows, size_t columns, uint8_t* y, ptrdiff_t y_pitch) {
  const size_t down = rows / 4 * 4, across = columns / 4 * 4;
  const auto squares = [&](size_t r, const auto& square) INTACT_INLINE_BODY {
    const uint8_t* const from = x + static_cast<ptrdiff_t>(r) * x_pitch;
    for (size_t c = 0; c < across; c += 4)
      square(from + 4 * c, x_pitch, y + static_cast<ptrdiff_t>(c) * y_pitch + 4 * r, y_pitch);
  };
  size_t r = 0;
  for (; r + kTall <= rows; r += kTall) squares(r, tall);
  for (; r < down; r += 4) squares(r, square_4<V>);
  const uint8_t* const right = x + 4 * across;
  uint8_t* const below = y + static_cast<ptrdiff_t>(across) * y_pitch;
  if (columns - across == 1) few_columns<1>(right, x_pitch, down, below, y_pitch);
  if (columns - across == 2) few_columns<2>(right, x_pitch, down, below, y_pitch);
  if (columns - across == 3) few_columns<3>(right, x_pitch, down, below, y_pitch);
  const uint8_t* const last = x + static_cast<ptrdiff_t>(down) * x_pitch;
  if (rows - down == 1) few_rows<1>(last, x_pitch, columns, y + 4 * down, y_pitch);
  if (rows - down == 2) few_rows<2>(last, x_pitch, columns, y + 4 * down, y_pitch);
  if (rows - down == 3) few_rows<3>(last, x_pitch, columns, y + 4 * down, y_pitch);
}

template <class V>
constexpr TransposeOps ops_of() {
  using Narrow = typename V::Narrow;
  return {bytes<Narrow>, words<Narrow>};
}

}  // namespace intact::transpose_loops
