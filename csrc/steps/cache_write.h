// New tokens behind those that a cache holds (N72).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "steps/common/cache_rows.h"

namespace intact {

// Rows of a cache are [sequences * heads * room, size] as CacheRows stores them, with neighbours side by
// side. Where `past` and `cache` are the same memory, nothing but the new tokens is written. A token behind
// the room fails the run.
struct CacheWriteSpec {
  View tokens;  // f32 [sequences * tokens, heads * size]
  View last;    // i32 or i64 [sequences]: the position of the last token
  std::optional<View> past;  // nothing: there was none
  View cache;                // of the same type
  int64_t heads;
  CacheKernels kernels;
};

// Throws std::invalid_argument for a step that is unsafe to run (base/check.h).
std::unique_ptr<Step> make_cache_write(const CacheWriteSpec& spec);

}  // namespace intact
