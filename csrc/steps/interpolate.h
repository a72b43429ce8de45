// Weighted sums of elements along one axis (N57). A linear or cubic Resize is one such step for each axis.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/step.h"

namespace intact {

// y[i] = sum over k of x[places[i * terms + k]] * weights[i * terms + k], k ascending. Every product and
// every sum is rounded.
struct InterpolateSpec {
  View x, y;  // f32, of one size along all other axes
  int axis;
  std::vector<int64_t> places;
  std::vector<float> weights;
  size_t terms;  // at least one
};

// Throws std::invalid_argument for a step that is unsafe to run (base/check.h).
std::unique_ptr<Step> make_interpolate(InterpolateSpec spec);

}  // namespace intact
