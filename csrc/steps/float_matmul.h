// Products of float32 matrices, [..., i, k] by [..., k, j]: numerics.float_product (N51). Strides are free: a
// transposed operand is read in place.
#pragma once

#include <memory>
#include <optional>

#include "kernels/transpose/transpose.h"
#include "runtime/step.h"
#include "steps/common/float_cut.h"

namespace intact {

struct FloatMatMulSpec {
  View a, y;  // the same sizes but for the last axis
  std::optional<View> b;  // the axes of y, with strides of 0 where it broadcasts; without it:
  PackedFloats packed;  // one matrix for the whole batch
  std::optional<View> start;  // [j]
};

// Throws std::invalid_argument for a step that is unsafe to run (base/check.h).
std::unique_ptr<Step> make_float_matmul(const FloatGemmOps& ops, const TransposeOps& transpose,
                                        const FloatMatMulSpec& spec);

}  // namespace intact
