// Elements and rows along an axis that an index chooses.
#pragma once

#include <memory>

#include "runtime/step.h"

namespace intact {

// y[i, j, k] = x[i, index[j], k]: i stands for the axes before `axis`, j for those of the index (i32 or i64),
// k for those behind. Negative indices count from the end; a run with one out of range fails.
struct PickSpec {
  View x, index, y;
  int axis;
};

// y[i] = x[i, but index[i] along the axis]; negative ones count from the end. A run with an index out of
// range fails.
struct GatherElementsSpec {
  View x, index, y;  // the index is i32 or i64, and has the sizes of y
  int axis;
};

// Both throw std::invalid_argument for what is unsafe to run (base/check.h).
std::unique_ptr<Step> make_pick(const PickSpec& spec);
std::unique_ptr<Step> make_gather_elements(const GatherElementsSpec& spec);

}  // namespace intact
