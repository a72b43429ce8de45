// Views of tensors: parts of them, under other shapes; and what makes one view from another.
#pragma once

#include <span>
#include <vector>

#include "engine/binding.h"
#include "engine/sizes.h"

namespace intact::engine {

// Other elements of the same memory.
View part_of(View x, size_t offset, const Axes& sizes, const Axes& strides);
// From `starts` on, `shape` elements, every one of `hops`; empty: each.
View slice_of(const View& x, const std::vector<int64_t>& starts, const Shape& shape,
              const std::vector<int64_t>& hops = {});
// Row-major memory under another shape.
View dense_under(const View& x, const Shape& shape);
bool is_dense(const View& x);
// A tensor under a larger shape: axes of size 1 and missing ones get strides of 0.
View spread(const View& x, const Shape& shape);
RealIn spread(RealIn x, const Shape& shape);
// Its axes in another order: axis i is axis order[i] of x.
View turned(const View& x, std::span<const int> order);
// All but the last axis as one; nothing where its elements are not evenly spaced.
bool rows_of(const View& x, View& rows);
// A tensor as rows along its last axis with neighbours side by side, where its bytes lie or in a dense copy:
// of what is read it is made now, of what is written `finish` adds it behind the steps that write.
View rows_read(Binding& binding, int value);
class RowsWritten {
 public:
  RowsWritten(Binding& binding, int value);
  const View& rows() const { return rows_; }
  void finish(Binding& binding) const;

 private:
  View whole_, dense_, rows_;
};

Axes sizes_of(const View& x);
Axes strides_of(const View& x);

// Elements of one view into another of the same shape, on the grid of the second. Nothing where both are the
// same bytes.
void move(Binding& binding, int from, const View& x, int to, const View& y);
// What was moved to y as bytes of x becomes bytes of y.
void regrid(Binding& binding, int from, int to, const View& y);

// Refuses indices out of range in a constant of tuples, with a size for each entry of a tuple. Negative ones
// count from the end.
void check_indices(Binding& binding, int index, const std::vector<int64_t>& sizes);

}  // namespace intact::engine
