// Elements of a tensor by an index tensor of y's sizes along one axis.
#pragma once

#include <memory>

#include "runtime/step.h"

namespace intact {

// y[i, j, ...] = x[index[i, j, ...], j, ...], where the axis is 0. Negative indices count from the end. An
// index out of range fails the run.
struct GatherElementsSpec {
  View x, index, y;  // the index is i32 or i64, and has the sizes of y
  int axis;
};

// Throws std::invalid_argument for a step that is unsafe to run (base/check.h).
std::unique_ptr<Step> make_gather_elements(const GatherElementsSpec& spec);

}  // namespace intact
