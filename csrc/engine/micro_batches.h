// Which steps run a few images of a batch at a time, so that what lies between them stays near the core
// (docs/decisions/0042-micro-batches.md): steps that treat images apart, one behind the other, are
// repeated for a few images each time, as if the batch were smaller. Threads share the times, and what only
// these steps use needs memory for a few images of each thread.
#pragma once

#include <vector>

#include "engine/layout.h"

namespace intact::engine {

// Steps [begin, end) of a plan, run for `images` images at a time, `times` times.
struct MicroBatches {
  size_t begin = 0, end = 0;
  int64_t images = 1, times = 1;
  std::vector<bool>
      inner;  // by tensor: only they use it, and each time overwrites it, in memory of the thread's own

  bool has(int tensor) const { return inner[static_cast<size_t>(tensor)]; }
  // Of a tensor that they use, what one time is about.
  Shape sizes(Shape shape) const {
    shape[0] = images;
    return shape;
  }
};

// Of activations that stay next to each core: a server's second cache has 1 to 2 MB.
constexpr int64_t kNearBytes = int64_t{1} << 20;

// Where it pays, in order, for so many threads: while an image has more bytes than the weights, which come
// anew each time. Steps that follow from sizes run once for all.
std::vector<MicroBatches> find_micro_batches(const Plan& plan, const std::vector<Shape>& shapes, int threads,
                                             int64_t near_bytes = kNearBytes);

// Whether all that they use may be cut where images end.
bool can_cut(const Plan& plan, const Layout& layout, const MicroBatches& steps);

}  // namespace intact::engine
