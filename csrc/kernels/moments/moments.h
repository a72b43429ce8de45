// Sums of products of columns, row after row, for error-compensating rounding; numerics.moments is
// normative. Factors are float32 numbers in float64, so that products are exact, and fused and separate
// additions give the same bits.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/cpu.h"

namespace intact {

constexpr size_t kMomentsStep = 16;  // columns; those of x come in a multiple of it, filled up with zeros

struct MomentsOps {
  static constexpr const char* kFamily = "moments";
  // to[r][i] = x[r][i], and sums[i] += x[r][i], one row r after the other, for i < size. Rows of x have
  // `columns` entries, those of `to` `stride`.
  void (*widen)(const float* x, size_t rows, size_t columns, size_t size, size_t stride, double* to,
                double* sums);
  // products[i][j] += x[r][i] * x[r][j], one row r after the other, for i < columns and i <= j < columns.
  // Rows of x and of products have `stride` entries, products `stride` rows; others of these may change.
  void (*add_products)(const double* x, size_t rows, size_t columns, size_t stride, double* products);
};

#define INTACT_KERNEL(name, needs) extern const MomentsOps name;
#include "kernels/moments/kernels.inc"
#undef INTACT_KERNEL

}  // namespace intact
