// Softmax along the last axis (N40). The axes may lie in memory in any order.
#pragma once

#include <memory>
#include <optional>

#include "kernels/float_steps/float_steps.h"
#include "kernels/transpose/transpose.h"
#include "runtime/step.h"
#include "steps/common/real_views.h"

namespace intact {

struct SoftmaxSpec {
  RealIn x;
  std::optional<RealIn> mask;  // sizes of x; strides are 0 where it broadcasts
  RealOut y;
  float gain;
};

// Throws std::invalid_argument for a step that is unsafe to run (base/check.h).
std::unique_ptr<Step> make_softmax(const FloatOps& ops, const TransposeOps& turn, const SoftmaxSpec& spec);

}  // namespace intact
