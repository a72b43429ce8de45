// Depthwise convolution of images in NHWC.
#pragma once

#include <array>
#include <memory>
#include <optional>

#include "kernels/depthwise/depthwise.h"
#include "kernels/reals/reals.h"
#include "runtime/step.h"

namespace intact {

// A function of the real sum, whose value is quantized where y is of bytes; M and B make reals then.
struct DepthwiseFunction {
  const RealsOps* ops;
  RealFunction function;
  float scale;  // of y
};

struct DepthwiseSpec {
  View x, y;                      // (n, h, w, c); y of bytes or of reals
  DepthwiseWeights weights;       // read only while the step is made
  std::optional<View> residual;   // bytes, shape of y
  std::array<int, 2> strides, dilations;
  std::array<int, 2> pads;  // top, left: read from the halo of x, as what lies below and to the right
  DepthwiseEnding ending;  // `bounded` is found here
  std::optional<DepthwiseFunction> function;
};

// Throws std::invalid_argument for what cannot be run safely.
std::unique_ptr<Step> make_depthwise(const DepthwiseOps& ops, const DepthwiseSpec& spec);

}  // namespace intact
