// The k largest or smallest elements along an axis, and their indices (N58).
#pragma once

#include <memory>

#include "runtime/step.h"

namespace intact {

// Elements are in order; of equal ones the one with the lower index comes first. A NaN comes before any
// number, also among the smallest. k is the size of y and of `places` along the axis.
struct TopKSpec {
  View x, y, places;  // x and y of one type: f32, i32, i64, u8 or i8; places are i64
  int axis;
  bool largest;
};

// Throws std::invalid_argument for a step that is unsafe to run (base/check.h).
std::unique_ptr<Step> make_top_k(const TopKSpec& spec);

}  // namespace intact
