// softmax(q k * gain + mask) v of floats as one step, some rows at a time, so that scores stay in the cache.
// The bits equal those of the three steps float_matmul, softmax and float_matmul (N51, N40).
#pragma once

#include <memory>
#include <optional>

#include "kernels/float_gemm/float_gemm.h"
#include "kernels/float_steps/float_steps.h"
#include "kernels/transpose/transpose.h"
#include "runtime/step.h"
#include "steps/common/real_views.h"

namespace intact {

// Leading axes are those of y; strides are 0 where one broadcasts.
struct FloatAttentionSpec {
  View q, keys, values,
      y;  // f32 [..., rows, depth], [..., depth, tokens], [..., tokens, width], [..., rows, width]
  std::optional<RealIn> mask;  // [..., rows, tokens]
  float gain;
};

// Throws std::invalid_argument for a step that is unsafe to run (base/check.h).
std::unique_ptr<Step> make_float_attention(const FloatGemmOps& gemm, const FloatOps& floats,
                                           const TransposeOps& transpose, const FloatAttentionSpec& spec);

}  // namespace intact
