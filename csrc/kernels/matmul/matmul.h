// Products of two matrices of bytes, neither of them constant: numerics.matmul and epilogues (N19, N22, N25),
// normative. acc[i][j] = sum over k of (a[i][k] - zero_a) * (b[k][j] - zero_b), exact modulo 2^32.
//
// Both sides are packed first, rows of a as a whole and b in panels of columns, in a form that each kernel
// defines. k is padded to a multiple of `depth` with codes that add nothing. What a form omits from the sum,
// a term per row and one per column, is part of the terms at which tile() begins.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/byte_grid.h"
#include "base/cpu.h"
#include "base/divisor.h"

namespace intact {

// One side: `lines` rows of a, or columns of b, of k bytes each. Strides are free, in bytes.
struct MatMulSide {
  const uint8_t* codes;
  ptrdiff_t line, step;  // from line to line, from k to k + 1
  size_t lines, k;
};

struct MatMulZeros {
  int32_t a, b;  // 0 to 255
};

// From sums to floats. A gain or a quotient other than 1: not both.
struct MatMulReals {
  float multiplier, gain, quotient, low, high;
};

struct MatMulOps {
  static constexpr const char* kFamily = "matmul";
  size_t rows, columns;  // most of a tile
  size_t depth, element;  // packed: k in multiples of depth, so many bytes for each code
  // Rows [lines][padded k], terms [lines].
  void (*pack_a)(const MatMulSide& a, const MatMulZeros& zeros, void* packed, int32_t* terms);
  // A panel of at most `columns` lines, terms [columns]; missing lines are zeros.
  void (*pack_b)(const MatMulSide& b, const MatMulZeros& zeros, void* packed, int32_t* terms);
  // sums [rows][columns]. `k` is padded; `packed` and `sums` are aligned to 64.
  void (*tile)(const void* a, const int32_t* a_terms, size_t rows, const void* b, const int32_t* b_terms,
               size_t k, int32_t* sums);
  // y = to_byte((fl32(fl32(acc) * multiplier) + 0) / scale), by an exact divisor; that by 1 changes nothing.
  void (*codes)(const int32_t* sums, size_t n, float multiplier, const Divisor& divisor, const ByteGrid& grid,
                uint8_t* y);
  // y = clamp((fl32(fl32(acc) * multiplier) + 0) * gain / quotient), each rounded.
  void (*floats)(const int32_t* sums, size_t n, const MatMulReals& reals, float* y);
};

#define INTACT_KERNEL(name, needs) extern const MatMulOps name;
#include "kernels/matmul/kernels.inc"
#undef INTACT_KERNEL

}  // namespace intact
