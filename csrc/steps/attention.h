// softmax(a b * gain + mask) v as one step, head by head, so that scores and probabilities stay in the
// cache. The bits equal those of the three steps matmul, softmax and matmul.
#pragma once

#include <memory>
#include <optional>

#include "kernels/float_steps/float_steps.h"
#include "steps/matmul.h"
#include "steps/common/real_views.h"

namespace intact {

struct AttentionSpec {
  MatMulSpec scores;  // a, b: [..., i, k] and [..., k, j]; `y` gives sizes [..., i, j] and the type alone
  float scale;  // of the scores, if they are codes
  float gain;
  std::optional<RealIn> mask;  // sizes of the scores
  float probability_scale;  // scale of the codes of the softmax
  ByteGrid probabilities;
  MatMulSpec product;  // `a` gives sizes [..., i, j] alone; b: [..., j, d]; y: [..., i, d]
};

// Throws std::invalid_argument for a step that is unsafe to run (base/check.h).
std::unique_ptr<Step> make_attention(const MatMulOps& matmul, const FloatOps& floats,
                                     const AttentionSpec& spec);

}  // namespace intact
