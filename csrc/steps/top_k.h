// The largest or smallest elements of every line along an axis, and where they stand.
#pragma once

#include <memory>

#include "runtime/step.h"

namespace intact {

// In order, the first one first; of equal elements that which stands first. A NaN comes before any number,
// whether the largest or the smallest are asked for. k is the size of y and places along the axis.
struct TopKSpec {
  View x, y, places;  // x and y of one type: f32, i32, i64, u8 or i8; places are i64
  int axis;
  bool largest;
};

// Throws std::invalid_argument for what is unsafe to run (base/check.h).
std::unique_ptr<Step> make_top_k(const TopKSpec& spec);

}  // namespace intact
