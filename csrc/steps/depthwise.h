// Depthwise convolution of images in NHWC.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <vector>

#include "kernels/depthwise/depthwise.h"
#include "kernels/float_steps/float_steps.h"
#include "runtime/step.h"

namespace intact {

// A function of the real sum, whose value is divided by `scale` and rounded where y is of bytes: M and B make
// floats then. Or slopes of what is below 0, in steps of y where y is of bytes: the scale is 1 then.
struct DepthwiseCurve {
  const FloatOps* ops;
  RealFunction function;      // nullptr: slopes
  float scale;
  std::vector<float> slopes;  // [c]
};

struct DepthwiseSpec {
  View x, y;                      // (n, h, w, c); y of bytes or of floats
  DepthwiseWeights weights;       // read only while the step is made
  std::optional<View> residual;   // bytes, shape of y
  std::array<int, 2> strides, dilations;
  std::array<int, 2> pads;  // top, left: read from the halo of x, as what lies below and to the right
  DepthwiseEpilogue epilogue;  // `bounded` is found here
  std::optional<DepthwiseCurve> curve;
};

// Throws std::invalid_argument for what cannot be run safely.
std::unique_ptr<Step> make_depthwise(const DepthwiseOps& ops, const DepthwiseSpec& spec);

}  // namespace intact
