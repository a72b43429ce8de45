// Layer normalization along the last axis (N41). The axes may lie in memory in any order.
#pragma once

#include <memory>
#include <optional>

#include "kernels/float_steps/float_steps.h"
#include "kernels/transpose/transpose.h"
#include "runtime/step.h"
#include "steps/common/real_views.h"

namespace intact {

struct LayerNormSpec {
  RealIn x;
  std::optional<RealIn> residual;
  std::optional<View> weight, bias;  // float32 [n]
  RealOut y;
  std::optional<RealOut> codes;  // codes of y as well, where y is float32
  std::optional<View> factors;  // float32 [n]: codes are those of y * factors
  float epsilon;
};

// Throws std::invalid_argument for a step that is unsafe to run (base/check.h).
std::unique_ptr<Step> make_layer_norm(const FloatOps& ops, const TransposeOps& turn,
                                      const LayerNormSpec& spec);

}  // namespace intact
