// Rows of a tensor by an index tensor along one axis.
#pragma once

#include <memory>

#include "runtime/step.h"

namespace intact {

// y[i, j, k] = x[i, index[j], k]. i stands for the axes before `axis`, j for those of the index (i32 or
// i64), and k for those behind. Negative indices count from the end. An index out of range fails the run.
struct GatherSpec {
  View x, index, y;
  int axis;
};

// Throws std::invalid_argument for a step that is unsafe to run (base/check.h).
std::unique_ptr<Step> make_gather(const GatherSpec& spec);

}  // namespace intact
