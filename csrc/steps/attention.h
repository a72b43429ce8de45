// softmax(a b * gain + mask) v in one step, head by head: scores and probabilities never leave the cache. The
// bits are those of the three steps matmul, softmax, matmul.
#pragma once

#include <memory>
#include <optional>

#include "kernels/float_steps/float_steps.h"
#include "steps/matmul.h"
#include "steps/common/real_views.h"

namespace intact {

struct AttentionSpec {
  MatMulSpec scores;  // a, b: [..., i, k] and [..., k, j]; `y` gives sizes [..., i, j] and the type alone
  float scale;  // of scores that are codes
  float gain;
  std::optional<RealIn> mask;  // sizes of the scores
  float probability_scale;  // of the codes of the softmax
  ByteGrid probabilities;
  MatMulSpec product;  // `a` gives sizes [..., i, j] alone; b: [..., j, d]; y: [..., i, d]
};

// Throws std::invalid_argument for what is unsafe to run (base/check.h).
std::unique_ptr<Step> make_attention(const MatMulOps& matmul, const FloatOps& floats,
                                     const AttentionSpec& spec);

}  // namespace intact
