// Packing for kernels that multiply 16-bit numbers: zero points are subtracted at once, so no terms are left.
// Static: every instruction set has its own copy.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "kernels/matmul/matmul.h"

namespace intact {

// Rows [lines][k rounded up to depth] of int16.
template <size_t depth>
static void pack_words_a(const MatMulSide& a, const MatMulZeros& zeros, void* packed, int32_t* terms) {
  auto* to = static_cast<int16_t*>(packed);
  const size_t pitch = (a.k + depth - 1) / depth * depth;
  for (size_t i = 0; i < a.lines; ++i, to += pitch) {
    const uint8_t* from = a.codes + static_cast<ptrdiff_t>(i) * a.line;
    if (a.step == 1) {
      for (size_t k = 0; k < a.k; ++k) to[k] = static_cast<int16_t>(from[k] - zeros.a);
    } else {
      for (size_t k = 0; k < a.k; ++k) {
        to[k] = static_cast<int16_t>(from[static_cast<ptrdiff_t>(k) * a.step] - zeros.a);
      }
    }
    std::fill(to + a.k, to + pitch, int16_t{0});
  }
  std::fill_n(terms, a.lines, 0);
}

// A panel [k / depth][columns][depth] of int16.
template <size_t depth, size_t columns>
static void pack_words_b(const MatMulSide& b, const MatMulZeros& zeros, void* packed, int32_t* terms) {
  auto* to = static_cast<int16_t*>(packed);
  const size_t groups = (b.k + depth - 1) / depth;
  std::fill_n(terms, columns, 0);
  if (b.lines < columns || b.k % depth != 0) std::fill_n(to, groups * columns * depth, int16_t{0});
  if (b.line == 1) {
    for (size_t k = 0; k < b.k; ++k) {
      const uint8_t* from = b.codes + static_cast<ptrdiff_t>(k) * b.step;
      int16_t* row = to + k / depth * columns * depth + k % depth;
      for (size_t j = 0; j < b.lines; ++j) row[j * depth] = static_cast<int16_t>(from[j] - zeros.b);
    }
    return;
  }
  for (size_t j = 0; j < b.lines; ++j) {
    const uint8_t* from = b.codes + static_cast<ptrdiff_t>(j) * b.line;
    for (size_t k = 0; k < b.k; ++k) {
      to[k / depth * columns * depth + j * depth + k % depth] =
          static_cast<int16_t>(from[static_cast<ptrdiff_t>(k) * b.step] - zeros.b);
    }
  }
}

}  // namespace intact
