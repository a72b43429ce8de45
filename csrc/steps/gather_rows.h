// Rows of a tensor by tuples of indices (N58).
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/step.h"

namespace intact {

// y[i] = such a row of x, the first `n / batch` tuples those of the first of `batch` parts, and so on.
struct GatherRowsSpec {
  View x, index, y;  // [batch * rows, width], [n, sizes], [n, width]
  std::vector<int64_t> sizes;
  int64_t batch;
};

// Throws std::invalid_argument for a step that is unsafe to run (base/check.h).
std::unique_ptr<Step> make_gather_rows(const GatherRowsSpec& spec);

}  // namespace intact
