// Running sums along an axis (N54).
#pragma once

#include <memory>

#include "runtime/step.h"

namespace intact {

// y[0] = x[0], y[k] = y[k-1] + x[k] along the axis. Each sum is rounded; integers wrap around.
struct CumSumSpec {
  View x, y;  // of one type: f32, i32 or i64
  int axis;
  bool exclusive;  // y[k] leaves out x[k], and y[0] is 0
  bool reverse;  // from the end
};

// Throws std::invalid_argument for a step that is unsafe to run (base/check.h).
std::unique_ptr<Step> make_cum_sum(const CumSumSpec& spec);

}  // namespace intact
