// Products of two tensors of codes, [..., i, k] by [..., k, j], with any strides: axes that a graph
// transposed before are read where they lie.
#pragma once

#include <memory>

#include "kernels/matmul/matmul.h"
#include "runtime/step.h"
#include "steps/common/epilogue.h"

namespace intact {

// The next multiple of `unit`.
constexpr size_t padded(size_t n, size_t unit) { return (n + unit - 1) / unit * unit; }

// The axes of a view that count matrices.
inline View leading(View v) {
  v.rank -= 2;
  return v;
}

struct MatMulSpec {
  View a, b, y;  // the same number of axes; leading ones of y's sizes, with strides of 0 where they broadcast
  MatMulZeros zeros;
  EpilogueSpec epilogue;  // one multiplier, and bounds
};

// Throws std::invalid_argument for operands and an epilogue that no product has; sizes are the maker's. Finds
// what kernels want to know of the epilogue.
void settle_product(MatMulSpec& spec);

// n sums of a row as elements of y, side by side.
void write_sums(const MatMulOps& ops, const MatMulSpec& spec, const int32_t* sums, size_t n, uint8_t* to);

// Throws std::invalid_argument for what is unsafe to run (base/check.h).
std::unique_ptr<Step> make_matmul(const MatMulOps& ops, const MatMulSpec& spec);

}  // namespace intact
