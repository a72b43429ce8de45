// Steps that need whole rows of floats: softmax and layer_norm, along the last axis of their views. What lies
// in memory in which order is free.
#pragma once

#include <memory>
#include <optional>

#include "kernels/float_steps/float_steps.h"
#include "kernels/transpose/transpose.h"
#include "steps/real_views.h"

namespace intact {

struct SoftmaxSpec {
  RealIn x;
  std::optional<RealIn> mask;  // sizes of x, with strides of 0 where it broadcasts
  RealOut y;
  float gain;
};

struct LayerNormSpec {
  RealIn x;
  std::optional<RealIn> residual;
  std::optional<View> weight, bias;  // float32 [n]
  RealOut y;
  std::optional<RealOut> codes;  // y as bytes too, where y is float32
  std::optional<View> factors;  // float32 [n]: the codes are those of y * factors
  float epsilon;
};

// Both throw std::invalid_argument for what is unsafe to run (base/check.h).
std::unique_ptr<Step> make_softmax(const FloatOps& ops, const TransposeOps& turn, const SoftmaxSpec& spec);
std::unique_ptr<Step> make_layer_norm(const FloatOps& ops, const TransposeOps& turn,
                                      const LayerNormSpec& spec);

}  // namespace intact
