// Attention of new tokens to a cache of keys and values (N72).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "kernels/float_gemm/float_gemm.h"
#include "kernels/float_steps/float_steps.h"
#include "kernels/transpose/transpose.h"
#include "steps/common/cache_rows.h"

namespace intact {

// Rows of q and y are tokens [sequences * tokens, heads * size], those of keys and values
// [sequences * kv_heads * room, size] as CacheRows stores them, all with neighbours side by side. A token
// behind the room fails the run.
struct CachedAttentionSpec {
  View q, keys, values, y;  // q and y are f32
  View last;                // i32 or i64 [sequences]: the position of the last token
  int64_t heads, kv_heads;
  float scale;
  float softcap_scale, softcap;  // softmax(tanh(x * softcap_scale) * softcap) if softcap is not 0
  int64_t window;  // tokens that each attends to, its own included; 0: all
  CacheKernels kernels;
  std::optional<View> sinks;  // f32 [heads], dense: of each head one more score, which has no value
};

// Throws std::invalid_argument for a step that is unsafe to run (base/check.h).
std::unique_ptr<Step> make_cached_attention(const FloatGemmOps& gemm, const FloatOps& floats,
                                            const TransposeOps& transpose, const CachedAttentionSpec& spec);

}  // namespace intact
