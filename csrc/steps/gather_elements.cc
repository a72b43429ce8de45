#include "steps/gather_elements.h"

#include "steps/common/indexed_copy.h"

namespace intact {
namespace {

// x with the sizes of y, and stride 0 along the axis.
View x_over(View x, const View& y, int axis) {
  demand(x.rank == y.rank && 0 <= axis && axis < x.rank, "views of one step differ in their axes");
  for (int i = 0; i < x.rank; ++i) {
    demand(i == axis || y.sizes[i] <= x.sizes[i], "y is larger than x");
    x.sizes[i] = y.sizes[i];
    if (i == axis) x.strides[i] = 0;
  }
  return x;
}

}  // namespace

std::unique_ptr<Step> make_gather_elements(const GatherElementsSpec& s) {
  const IndexedViews views = {s.index, x_over(s.x, s.y, s.axis), s.y, line_of(s.x, s.axis)};
  return std::make_unique<IndexedCopy>("gather_elements", s.x, s.index, views);
}

}  // namespace intact
