// Rows times the block weights that indices choose: the experts of a transformer. Of codes it is N69, of
// floats N67 and N51.
#pragma once

#include "kernels/float_gemm/float_gemm.h"
#include "steps/block_linear.h"
#include "steps/common/block_float_product.h"

namespace intact {

struct ChosenBlockSpec {
  View x;  // i8, or f32 [rows, k], neighbours side by side
  View index;  // i32 or i64 [n, 1]: as many for each row of x
  View y;  // f32 [n, outputs / groups], neighbours side by side
  int64_t groups;  // of outputs, each of whole panels
};

struct ChosenBlockCodes {
  ChosenBlockSpec rows;
  View x_scales;  // f32 [rows, x_blocks]; rows may have one for all
  BlockLinearSpec weights;  // of all groups; what rows are is left out
};

struct ChosenBlockFloats {
  ChosenBlockSpec rows;
  BlockFloatWeights weights;
};

// Throw std::invalid_argument for a step that is unsafe to run (base/check.h).
std::unique_ptr<Step> make_chosen_block_codes(const BlockGemmOps& ops, const ChosenBlockCodes& spec,
                                              const BlockCut& cut);
std::unique_ptr<Step> make_chosen_block_floats(const FloatGemmOps& floats, const BlockGemmOps& blocks,
                                               const ChosenBlockFloats& spec, const BlockCut& cut);

}  // namespace intact
