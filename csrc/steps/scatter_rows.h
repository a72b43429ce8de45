// Rows of y replaced by updates, at tuples of indices (N58).
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/step.h"
#include "steps/common/scatter_updates.h"

namespace intact {

// Rows of y [rows, width] by tuples: index[i] says where the row stands in an array of these sizes. Each row
// becomes update[i], or what the reduction makes of both, i ascending.
struct ScatterRowsSpec {
  View index, updates, y;  // i32 or i64 [n, sizes], [n, width], [rows, width]; rows lie side by side
  std::vector<int64_t> sizes;
  Reduction reduction;
};

// Throws std::invalid_argument for a step that is unsafe to run (base/check.h).
std::unique_ptr<Step> make_scatter_rows(const ScatterRowsSpec& spec);

}  // namespace intact
