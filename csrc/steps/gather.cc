#include "steps/gather.h"

#include "steps/common/indexed_copy.h"

namespace intact {
namespace {

// The index with the axes of y; its stride is 0 along those of x.
View index_over(const GatherSpec& s) {
  View index = s.index;
  index.rank = s.y.rank;
  index.sizes = s.y.sizes;
  index.strides = {};
  for (int i = 0; i < s.index.rank; ++i) {
    demand(s.index.sizes[i] == s.y.sizes[s.axis + i], "views of one step differ in their sizes");
    index.strides[s.axis + i] = s.index.strides[i];
  }
  return index;
}

// x with the axes of y; its stride is 0 along those of the index.
View x_over(const GatherSpec& s) {
  View x = s.x;
  x.rank = s.y.rank;
  x.sizes = s.y.sizes;
  x.strides = {};
  for (int i = 0; i < s.x.rank; ++i) {
    if (i == s.axis) continue;
    const int at = i < s.axis ? i : i + s.index.rank - 1;
    demand(s.x.sizes[i] == s.y.sizes[at], "rows differ in their sizes");
    x.strides[at] = s.x.strides[i];
  }
  return x;
}

}  // namespace

std::unique_ptr<Step> make_gather(const GatherSpec& s) {
  demand(0 <= s.axis && s.axis < s.x.rank, "there is no such axis");
  demand(s.y.rank == s.index.rank + s.x.rank - 1, "y has the axes of the index in the place of one of x");
  const IndexedViews views = {index_over(s), x_over(s), s.y, line_of(s.x, s.axis)};
  return std::make_unique<IndexedCopy>("gather", s.x, s.index, views);
}

}  // namespace intact
