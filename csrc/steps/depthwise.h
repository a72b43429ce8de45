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
  View x, y;                      // (n, h, w, c); x of bytes, y of bytes or float32
  DepthwiseWeights weights;       // only the maker reads them
  std::array<int, 2> strides, dilations;
  std::array<int, 2> pads;  // top, left; padding on all sides is read from the halo of x
  EpilogueSpec epilogue;  // no factors
  std::optional<View> low;  // for codes of 16 bits, which are 256 * x + low; lies as x does
};

// Throws std::invalid_argument for a step that is unsafe to run (base/check.h).
std::unique_ptr<Step> make_depthwise(const DepthwiseOps& ops, const DepthwiseSpec& spec);

}  // namespace intact
