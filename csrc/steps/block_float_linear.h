// Rows of floats times the floats of block weights (N67), by a product of floats (N51). Weights are widened
// tile by tile, for rows that then read them from the cache.
#pragma once

#include "kernels/float_gemm/float_gemm.h"
#include "steps/block_linear.h"

namespace intact {

struct BlockFloatLinearSpec {
  View x;  // f32 [rows, k], neighbours side by side
  View y;  // f32 [rows, n], likewise
  int bits;  // of packed codes
  View weight;  // packed, as for BlockLinearSpec
  BlockValues scales;
  std::optional<View> zeros;
  int32_t zero;
  std::optional<BlockValues> minima;
  std::optional<View> start;  // f32 [n]
};

// Throws std::invalid_argument for a step that is unsafe to run (base/check.h).
std::unique_ptr<Step> make_block_float_linear(const FloatGemmOps& floats, const BlockGemmOps& blocks,
                                              const BlockFloatLinearSpec& spec, const BlockCut& cut);

}  // namespace intact
