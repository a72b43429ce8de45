// Convolutions of images of float32 with constant weights: numerics.float_conv (N51). Windows are read where
// the image lies, padding from its halo of +0.
#pragma once

#include <array>
#include <memory>
#include <optional>

#include "runtime/step.h"
#include "steps/common/float_cut.h"

namespace intact {

struct FloatConvSpec {
  View x, y;  // (n, h, w, c)
  // Each group's panels behind the other's, of [kernel_h * kernel_w * in / groups][out / groups]; where each
  // channel is by itself, [kernel_h * kernel_w][channels].
  PackedFloats packed;
  std::array<int64_t, 2> kernel{1, 1}, strides{1, 1}, dilations{1, 1};
  std::array<int64_t, 2> origin{0, 0};  // input pixel under the first tap of output pixel (0, 0); -1: pad 1
  int64_t groups = 1;
  std::optional<View> start;  // [c of y]
};

// Throws std::invalid_argument for what is unsafe to run (base/check.h).
std::unique_ptr<Step> make_float_conv(const FloatGemmOps& ops, const FloatConvSpec& spec);

}  // namespace intact
