// Rounds weights together, for ptq/stages/weight_rounding.py. Every function equals its namesake in
// numerics/integers/rounding.py bit for bit: sums have one order, on every machine.
#pragma once

#include <cstddef>

#include "kernels/moments/moments.h"

namespace intact {

// A block of columns of matrices, [groups, rows, columns].
struct ColumnBlock {
  size_t groups, rows, columns;  // of the matrices
  size_t first, size;            // the block's columns
};

// Sums of each column of a block, [groups, size], and of the products of any two, [groups, size, size].
void moments(const MomentsOps& ops, const float* x, const ColumnBlock& block, double* sums, double* products);

// U of U D U^T, a unit upper triangle, in place of a positive symmetric matrix [size, size].
void unit_factor(double* matrix, size_t size);

// Points of the grid, [rows, size]: of each row one after the other, moved by what the errors before ask for.
struct GridRows {
  const double* rows;   // [count, size]
  const double* steps;  // [count, size]
  double low, high;     // codes
};
void round_together(const GridRows& grid, const double* factor, size_t count, size_t size, double* points);

// d^T H d of each row d of [count, size], H [size, size]; `space` holds `size` numbers.
void quadratic_forms(const double* rows, const double* matrix, size_t count, size_t size, double* space,
                     double* out);

}  // namespace intact
