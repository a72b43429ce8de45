// The loops of the family, once for every register of float64: 4 rows of products by 2 registers at a time.
#pragma once

#include "base/inline.h"
#include "kernels/moments/moments.h"

namespace intact::moments_loops {

constexpr size_t kRows = 4, kRegisters = 2;

template <class V>
void widen(const float* __restrict x, size_t rows, size_t columns, size_t size, size_t stride,
           double* __restrict to, double* __restrict sums) {
  for (size_t r = 0; r < rows; ++r, x += columns, to += stride) {
    size_t i = 0;
    for (; i + V::kWidth <= size; i += V::kWidth) {
      const typename V::D wide = V::widened(x + i);
      V::store(to + i, wide);
      V::store(sums + i, V::add(V::load(sums + i), wide));
    }
    for (; i < size; ++i) sums[i] += to[i] = x[i];
  }
}

template <class V>
void add_products(const double* x, size_t rows, size_t columns, size_t stride, double* products) {
  constexpr size_t kWide = kRegisters * V::kWidth;
  static_assert(kMomentsStep % kWide == 0 && kWide % kRows == 0);
  for (size_t i = 0; i < columns; i += kRows) {
    for (size_t j = i - i % kWide; j < columns; j += kWide) {
      double* const at = products + i * stride + j;
      typename V::D sums[kRows][kRegisters];
      INTACT_UNROLL("GCC unroll 4")
      for (size_t a = 0; a < kRows; ++a) {
        INTACT_UNROLL("GCC unroll 2")
        for (size_t b = 0; b < kRegisters; ++b) sums[a][b] = V::load(at + a * stride + b * V::kWidth);
      }
      for (size_t r = 0; r < rows; ++r) {
        const double* const row = x + r * stride;
        typename V::D right[kRegisters];
        INTACT_UNROLL("GCC unroll 2")
        for (size_t b = 0; b < kRegisters; ++b) right[b] = V::load(row + j + b * V::kWidth);
        INTACT_UNROLL("GCC unroll 4")
        for (size_t a = 0; a < kRows; ++a) {
          const typename V::D left = V::set(row[i + a]);
          INTACT_UNROLL("GCC unroll 2")
          for (size_t b = 0; b < kRegisters; ++b) sums[a][b] = V::add_product(left, right[b], sums[a][b]);
        }
      }
      INTACT_UNROLL("GCC unroll 4")
      for (size_t a = 0; a < kRows; ++a) {
        INTACT_UNROLL("GCC unroll 2")
        for (size_t b = 0; b < kRegisters; ++b) V::store(at + a * stride + b * V::kWidth, sums[a][b]);
      }
    }
  }
}

}  // namespace intact::moments_loops
