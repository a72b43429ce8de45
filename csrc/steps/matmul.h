// Products of two tensors of codes, [..., i, k] by [..., k, j], with any strides: axes that a graph
// transposed before are read where they lie.
#pragma once

#include <memory>

#include "kernels/matmul/matmul.h"
#include "runtime/step.h"

namespace intact {

struct MatMulSpec {
  View a, b, y;  // the same number of axes; leading ones of y's sizes, with strides of 0 where they broadcast
  MatMulZeros zeros;
  float multiplier;
  ByteGrid grid;  // where y is bytes
  float low, high;  // where y is float32
};

// Throws std::invalid_argument for what cannot be run safely.
std::unique_ptr<Step> make_matmul(const MatMulOps& ops, const MatMulSpec& spec);

}  // namespace intact
