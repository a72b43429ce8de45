// Convolution of codes whose scale and zero point a run says, with constant codes (N73): windows of a block
// of pixels are laid out as rows, which are multiplied by panels of weights.
#pragma once

#include <memory>
#include <optional>

#include "kernels/block_gemm/block_gemm.h"
#include "steps/common/dynamic_images.h"

namespace intact {

struct DynamicConvSpec : DynamicImages {
  // Packed (steps/block_linear.h), for each group its panels, every output as one block.
  View weight;  // u8 [bytes]
  View scales;  // f32 [groups, panels, 16]
  std::optional<View> zeros;  // u8, likewise
  std::optional<View> sums;  // i32, likewise: where x is u8
  std::optional<View> bias;  // f32, likewise
  int64_t groups;
};

// Throws std::invalid_argument for a step that is unsafe to run (base/check.h).
std::unique_ptr<Step> make_dynamic_conv(const BlockGemmOps& ops, const DynamicConvSpec& spec);

// Pixels of an item of work: enough to choose a kernel of many rows.
int64_t dynamic_conv_rows(int64_t pixels);

}  // namespace intact
