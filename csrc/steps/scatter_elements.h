// Elements of y replaced by updates, at indices along one axis (N58).
#pragma once

#include <memory>

#include "runtime/step.h"
#include "steps/common/scatter_updates.h"

namespace intact {

// y[index[i, j, ...], j, ...] = updates[i, j, ...], where the axis is 0, or the reduction of both. Indices
// along the axis take effect in their order. Other elements of y stay. Negative indices count from the end.
// An index out of range fails the run.
struct ScatterElementsSpec {
  View index, updates, y;  // the index is i32 or i64; updates have its sizes and y's type
  int axis;
  Reduction reduction;
};

// Throws std::invalid_argument for a step that is unsafe to run (base/check.h).
std::unique_ptr<Step> make_scatter_elements(const ScatterElementsSpec& spec);

}  // namespace intact
