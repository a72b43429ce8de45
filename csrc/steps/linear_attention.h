// Linear attention: tokens go into a state one after the other (N76).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "kernels/float_gemm/float_gemm.h"
#include "kernels/float_steps/float_steps.h"
#include "runtime/step.h"

namespace intact {

// All are f32, with neighbours side by side. Rows of q, k, v, decay, beta and y are tokens [sequences *
// tokens, columns], those of states [sequences * kv_heads * size, value size]. `past` may be the memory of
// `state`.
struct LinearAttentionSpec {
  View q, k, v, y, state;
  std::optional<View> past, decay, beta;
  int64_t sequences, heads, kv_heads;
  float scale;
};

// Throws std::invalid_argument for a step that is unsafe to run (base/check.h).
std::unique_ptr<Step> make_linear_attention(const FloatGemmOps& gemm, const FloatOps& floats,
                                            const LinearAttentionSpec& spec);

}  // namespace intact
