// Products of two tensors of codes, [..., i, k] by [..., k, j], with any strides: a transposed operand is
// read in place.
#pragma once

#include <memory>

#include "kernels/matmul/matmul.h"
#include "runtime/step.h"
#include "steps/common/epilogue.h"

namespace intact {

// The next multiple of `unit`.
constexpr size_t padded(size_t n, size_t unit) { return (n + unit - 1) / unit * unit; }

// A view without its last two axes: the batch of matrices.
inline View leading(View v) {
  v.rank -= 2;
  return v;
}

struct MatMulSpec {
  View a, b, y;  // the same number of axes; leading ones of y's sizes, with strides of 0 where they broadcast
  MatMulZeros zeros;
  std::shared_ptr<const EpilogueSpec> epilogue;  // one multiplier, and bounds: settle_product's
};

// Sets the fields of a product's epilogue that follow from others. Steps of all sizes share what it returns.
// Throws std::invalid_argument for an epilogue that no product has.
std::shared_ptr<const EpilogueSpec> settle_product(EpilogueSpec epilogue);

// Throws std::invalid_argument where operands, but for their sizes, and epilogue do not fit.
void check_product(const MatMulSpec& spec);

// Writes n sums of a row as dense elements of y.
void write_sums(const MatMulOps& ops, const MatMulSpec& spec, const int32_t* sums, size_t n, uint8_t* to);

// Throws std::invalid_argument for a step that is unsafe to run (base/check.h).
std::unique_ptr<Step> make_matmul(const MatMulOps& ops, const MatMulSpec& spec);

}  // namespace intact
