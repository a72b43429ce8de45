// Nearest-neighbour resizing: along each axis a list says which element of x each position reads.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/step.h"

namespace intact {

// y[i, j, ...] = x[indices[0][i], indices[1][j], ...]. Each axis of y has a list with one index per position.
struct ResizeSpec {
  View x, y;
  std::vector<std::vector<int64_t>> indices;
};

// Throws std::invalid_argument for a step that is unsafe to run (base/check.h).
std::unique_ptr<Step> make_resize(const ResizeSpec& spec);

}  // namespace intact
