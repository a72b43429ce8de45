// Products of float32 matrices, [..., i, k] by [..., k, j]: numerics.float_product (N51). Any strides: axes
// that a graph transposed before are read where they lie.
#pragma once

#include <memory>
#include <optional>

#include "kernels/transpose/transpose.h"
#include "runtime/step.h"
#include "steps/common/float_cut.h"

namespace intact {

struct FloatMatMulSpec {
  View a, y;  // the same axes but the last
  std::optional<View> b;  // the axes of y, with strides of 0 where it broadcasts; without it:
  PackedFloats packed;  // one matrix for all
  std::optional<View> start;  // [j]
};

// Throws std::invalid_argument for what is unsafe to run (base/check.h).
std::unique_ptr<Step> make_float_matmul(const FloatGemmOps& ops, const TransposeOps& transpose,
                                        const FloatMatMulSpec& spec);

}  // namespace intact
