#include "steps/gather.h"

#include "steps/common/indexed_copy.h"

namespace intact {
namespace {

// The index with the axes of y: along those of x it stands still.
View index_over(const GatherSpec& s) {
  View found = s.index;
  found.rank = s.y.rank;
  found.sizes = s.y.sizes;
  found.strides = {};
  for (int i = 0; i < s.index.rank; ++i) {
    demand(s.index.sizes[i] == s.y.sizes[s.axis + i], "views of one step differ in their sizes");
    found.strides[s.axis + i] = s.index.strides[i];
  }
  return found;
}

// x with the axes of y: along those of the index it stands still.
View x_over(const GatherSpec& s) {
  View found = s.x;
  found.rank = s.y.rank;
  found.sizes = s.y.sizes;
  found.strides = {};
  for (int i = 0; i < s.x.rank; ++i) {
    if (i == s.axis) continue;
    const int at = i < s.axis ? i : i + s.index.rank - 1;
    demand(s.x.sizes[i] == s.y.sizes[at], "rows differ in their sizes");
    found.strides[at] = s.x.strides[i];
  }
  return found;
}

}  // namespace

std::unique_ptr<Step> make_gather(const GatherSpec& s) {
  demand(0 <= s.axis && s.axis < s.x.rank, "there is no such axis");
  demand(s.y.rank == s.index.rank + s.x.rank - 1, "y has the axes of the index in the place of one of x");
  const IndexedViews views = {index_over(s), x_over(s), s.y, line_of(s.x, s.axis)};
  return std::make_unique<IndexedCopy>("gather", s.x, s.index, views);
}

}  // namespace intact
