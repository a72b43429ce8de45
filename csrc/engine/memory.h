// A place in the arena for every tensor, for as long as somebody reads it.
#pragma once

#include <vector>

#include "engine/held.h"
#include "engine/layout.h"
#include "engine/micro_batches.h"

namespace intact::engine {

// Memory that is taken from one step to another, both included.
struct Span {
  int64_t nbytes = 0;
  int begin = 0, end = 0;
  bool is_used = false;
};

// Places the largest first, each as low as it fits: a few large tensors decide how large the arena is, and
// small ones fit into the gaps that those leave. kSlack lies behind everything. Writes the offsets of those
// that are used, and returns the bytes of all.
int64_t place_spans(const std::vector<Span>& spans, std::vector<int64_t>& offsets);

struct ArenaPlan {
  std::vector<int64_t> offsets;  // by tensor; -1: it lies in a caller's array. Of what is held, in its memory
  // Offset and bytes of the first thread's memory, for each of the micro-batches, within which the offsets of
  // their inner tensors lie.
  std::vector<std::pair<int64_t, int64_t>> threads;
  std::vector<std::pair<int64_t, int64_t>> taken;  // offset and bytes of what lies in the arena
  int64_t nbytes = 0, held_nbytes = 0;
};

// Throws Failure (INTACT_BAD_SHAPE) where tensors take more memory than any machine has.
// `is_whole`: no tensor takes the place of another.
ArenaPlan plan_memory(const Plan& plan, const LayoutPlan& known, const Layout& layout, const Held& held,
                      const std::vector<MicroBatches>& repeated, int threads, bool is_whole = false);

}  // namespace intact::engine
