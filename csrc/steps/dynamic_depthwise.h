// Depthwise convolution of codes whose scale and zero point a run says, with constant codes (N73).
#pragma once

#include <memory>
#include <optional>

#include "kernels/dynamic_depthwise/dynamic_depthwise.h"
#include "steps/common/dynamic_images.h"

namespace intact {

struct DynamicDepthwiseSpec : DynamicImages {
  View weights;  // i32 [taps * c], as kernels read them
  View sums;  // i32 [c]: of the weights of all taps
  View scales;  // f32 [c]
  std::optional<View> bias;  // f32 [c]
};

// Throws std::invalid_argument for a step that is unsafe to run (base/check.h).
std::unique_ptr<Step> make_dynamic_depthwise(const DynamicDepthwiseOps& ops,
                                             const DynamicDepthwiseSpec& spec);

}  // namespace intact
