// A place in the arena for every tensor, for as long as somebody reads it.
#pragma once

#include <vector>

#include "engine/layout.h"
#include "engine/micro_batches.h"

namespace intact::engine {

struct ArenaPlan {
  std::vector<int64_t> offsets;                         // by tensor; -1: it lies in a caller's array
  // Offset and bytes of the first thread's memory, for each of the micro-batches, within which the offsets of
  // their inner tensors lie.
  std::vector<std::pair<int64_t, int64_t>> threads;
  std::vector<std::pair<int64_t, int64_t>> taken;  // offset and bytes of what lies in the arena
  int64_t nbytes = 0;
};

// Throws Failure (INTACT_BAD_SHAPE) where tensors take more memory than any machine has.
ArenaPlan plan_memory(const Plan& plan, const Layout& layout, const std::vector<MicroBatches>& repeated,
                      int threads);

}  // namespace intact::engine
