// Convolutions of float32 images with constant weights: numerics.float_conv (N51). Windows are read from the
// image itself, and padding from its halo of +0.
#pragma once

#include <array>
#include <memory>
#include <optional>

#include "runtime/step.h"
#include "steps/common/float_cut.h"

namespace intact {

struct FloatConvSpec {
  View x, y;  // (n, h, w, c)
  // Panels of [kernel_h * kernel_w * in / groups][out / groups], group after group. For depthwise
  // convolutions [kernel_h * kernel_w][channels].
  PackedFloats packed;
  std::array<int64_t, 2> kernel{1, 1}, strides{1, 1}, dilations{1, 1};
  std::array<int64_t, 2> origin{0, 0};  // input pixel under the first tap of output pixel (0, 0); -1: pad 1
  int64_t groups = 1;
  std::optional<View> start;  // [c of y]
};

// Throws std::invalid_argument for a step that is unsafe to run (base/check.h).
std::unique_ptr<Step> make_float_conv(const FloatGemmOps& ops, const FloatConvSpec& spec);

}  // namespace intact
