// A place in the arena for every tensor, for as long as somebody reads it.
#pragma once

#include <vector>

#include "engine/layout.h"

namespace intact::engine {

struct ArenaPlan {
  std::vector<int64_t> offsets;                         // by tensor; -1: it lies in a caller's array
  std::vector<std::pair<int64_t, int64_t>> taken;  // offset and bytes of what lies in the arena
  int64_t nbytes = 0;
};

// Throws Failure (INTACT_BAD_SHAPE) where tensors take more memory than any machine has.
ArenaPlan plan_memory(const Plan& plan, const Layout& layout);

constexpr int64_t kArenaAlignment = 64;
constexpr int64_t round_up(int64_t n) {
  return (n + kArenaAlignment - 1) / kArenaAlignment * kArenaAlignment;
}

}  // namespace intact::engine
