// Elements of y replaced by updates, at indices along one axis (N58).
#pragma once

#include <memory>

#include "runtime/step.h"
#include "steps/common/scatter_updates.h"

namespace intact {

// y[index[i], but i along other axes] = update[i], or what the reduction makes of both, in the order of the
// index along the axis. What y holds beside that stays. Negative indices count from the end; a run with an
// index out of range fails.
struct ScatterElementsSpec {
  View index, updates, y;  // the index is i32 or i64; updates have its sizes and y's type
  int axis;
  Reduction reduction;
};

// Throws std::invalid_argument for a step that is unsafe to run (base/check.h).
std::unique_ptr<Step> make_scatter_elements(const ScatterElementsSpec& spec);

}  // namespace intact
