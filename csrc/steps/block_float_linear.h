// Rows of floats times the floats of block weights (N67), by a product of floats (N51).
#pragma once

#include "steps/common/block_float_product.h"

namespace intact {

struct BlockFloatLinearSpec {
  View x;  // f32 [rows, k], neighbours side by side
  View y;  // f32 [rows, n], likewise
  BlockFloatWeights weights;
};

// Throws std::invalid_argument for a step that is unsafe to run (base/check.h).
std::unique_ptr<Step> make_block_float_linear(const FloatGemmOps& floats, const BlockGemmOps& blocks,
                                              const BlockFloatLinearSpec& spec, const BlockCut& cut);

}  // namespace intact
