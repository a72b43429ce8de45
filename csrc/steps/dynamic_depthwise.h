// Depthwise convolution of codes whose scale and zero point a run says, with constant codes (N73).
#pragma once

#include <array>
#include <memory>
#include <optional>

#include "kernels/dynamic_depthwise/dynamic_depthwise.h"
#include "runtime/step.h"

namespace intact {

struct DynamicDepthwiseSpec {
  View x;  // i8 or u8 [n, h, w, c], channels side by side
  View x_scale;  // f32 [1]
  std::optional<View> x_zero;  // u8 [1], where x is u8; none: 0
  View y;  // f32 [n, h, w, c], channels side by side
  View weights;  // i32 [taps * c], as kernels read them
  View sums;  // i32 [c]: of the weights of all taps
  View scales;  // f32 [c]
  std::optional<View> bias;  // f32 [c]
  std::array<int64_t, 2> kernel, strides, dilations;
  std::array<int64_t, 4> pads;  // (top, left, bottom, right); they read the zero point
};

// Throws std::invalid_argument for a step that is unsafe to run (base/check.h).
std::unique_ptr<Step> make_dynamic_depthwise(const DynamicDepthwiseOps& ops,
                                             const DynamicDepthwiseSpec& spec);

}  // namespace intact
