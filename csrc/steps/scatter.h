// Elements and rows written, or read, where indices say.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/step.h"

namespace intact {

enum class Reduction : uint8_t { none, add, mul, max, min };

// y[index[i], but i along other axes] = update[i], or what the reduction makes of both, in the order of the
// index along the axis. What y holds beside that stays. Negative indices count from the end; a run with an
// index out of range fails.
struct ScatterElementsSpec {
  View index, updates, y;  // the index is i32 or i64; updates have its sizes and y's type
  int axis;
  Reduction reduction;
};

// Rows of y [rows, width] by tuples: index[i] says where the row stands in an array of these sizes. Each row
// becomes update[i], or what the reduction makes of both, i ascending.
struct ScatterRowsSpec {
  View index, updates, y;  // i32 or i64 [n, sizes], [n, width], [rows, width]; rows lie side by side
  std::vector<int64_t> sizes;
  Reduction reduction;
};

// y[i] = such a row of x, the first `n / batch` tuples those of the first of `batch` parts, and so on.
struct GatherRowsSpec {
  View x, index, y;  // [batch * rows, width], [n, sizes], [n, width]
  std::vector<int64_t> sizes;
  int64_t batch;
};

// All throw std::invalid_argument for what is unsafe to run (base/check.h).
std::unique_ptr<Step> make_scatter_elements(const ScatterElementsSpec& spec);
std::unique_ptr<Step> make_scatter_rows(const ScatterRowsSpec& spec);
std::unique_ptr<Step> make_gather_rows(const GatherRowsSpec& spec);

// "" or the name of one; throws std::invalid_argument.
Reduction reduction_of(const std::string& name);

}  // namespace intact
