// Rows of a tensor by tuples of indices (N58).
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/step.h"

namespace intact {

// x has `batch` parts of equally many rows. Of n tuples, the first n / batch index rows of the first part,
// and so on. A tuple index[i] is the position of row i in an array of `sizes`. An index out of range fails
// the run.
struct GatherRowsSpec {
  View x, index, y;  // [batch * rows, width], [n, sizes], [n, width]
  std::vector<int64_t> sizes;
  int64_t batch;
};

// Throws std::invalid_argument for a step that is unsafe to run (base/check.h).
std::unique_ptr<Step> make_gather_rows(const GatherRowsSpec& spec);

}  // namespace intact
