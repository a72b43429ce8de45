// Rows of y replaced by updates, at tuples of indices (N58).
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/step.h"
#include "steps/common/scatter_updates.h"

namespace intact {

// Row r of y [rows, width] becomes updates[i], or the reduction of both, i ascending. The tuple index[i] is
// the position of row r in an array of `sizes`. Other rows stay. An index out of range fails the run.
struct ScatterRowsSpec {
  View index, updates, y;  // i32 or i64 [n, sizes], [n, width], [rows, width]; rows lie side by side
  std::vector<int64_t> sizes;
  Reduction reduction;
};

// Throws std::invalid_argument for a step that is unsafe to run (base/check.h).
std::unique_ptr<Step> make_scatter_rows(const ScatterRowsSpec& spec);

}  // namespace intact
