// Depthwise convolution of images in NHWC.
#pragma once

#include <array>
#include <memory>
#include <optional>

#include "kernels/depthwise/depthwise.h"
#include "runtime/step.h"
#include "steps/common/epilogue.h"

namespace intact {

struct DepthwiseSpec {
  View x, y;                      // (n, h, w, c); y of bytes or of floats
  DepthwiseWeights weights;       // read only while the step is made
  std::array<int, 2> strides, dilations;
  std::array<int, 2> pads;  // top, left: read from the halo of x, as what lies below and to the right
  EpilogueSpec epilogue;  // no factors
  std::optional<View> low;  // as x: what is multiplied is 256 * x + low
};

// Throws std::invalid_argument for what is unsafe to run (base/check.h).
std::unique_ptr<Step> make_depthwise(const DepthwiseOps& ops, const DepthwiseSpec& spec);

}  // namespace intact
