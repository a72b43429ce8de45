// What products multiply by weights in blocks: rows of floats, or of codes with ranges of their own.
#pragma once

#include <string>

#include "engine/binding.h"
#include "engine/kinds/block_constants.h"
#include "engine/kinds/views.h"
#include "engine/sizes.h"
#include "steps/block_linear.h"

namespace intact::engine {

// Refuses blocks that kernels do not multiply.
inline void check_cut(const Checker& checker, const BlockConstants& w, int64_t x_block) {
  try {
    BlockCut(w.inputs, x_block, w.block);
  } catch (const std::invalid_argument&) {
    checker.that(false,
                 "blocks of one side that are parts of the other's, of 8 elements or multiples, "
                 "with sums that fit int32");
  }
}

// The sizes of x [..., inputs].
inline const Shape& sizes_of_rows(const Sizes& sizes, int x, const BlockConstants& w) {
  const Shape& shape = sizes.of(x);
  if (shape.last() != w.inputs)
    sizes.mismatch(x, std::to_string(shape.last()) + " columns", std::to_string(w.inputs));
  return shape;
}

// Scales and zero points of codes: one range for all rows, or one for each block of each row.
struct BlockRanges {
  BlockRanges(Fields& f, bool optional, bool has_zero_points)
      : scales(f.operand("x_scales", optional)),
        zero_points(has_zero_points ? f.operand("x_zero_points", true) : kNoValue),
        block(f.integer("x_block")) {}

  void check(const Checker& checker, int x, const BlockConstants& w) const {
    checker.that(block > 0, "blocks of elements");
    checker.floats(scales);
    for (const int value : {scales, zero_points}) {
      if (value == kNoValue) continue;
      checker.that(checker.rank(value) == 0 || checker.rank(value) == checker.rank(x),
                   "a range for each block");
    }
    check_cut(checker, w, block);
  }

  void check_sizes(const Sizes& sizes, const Shape& x) const {
    Shape expected = x;
    expected[expected.rank - 1] = (x.last() - 1) / block + 1;
    for (const int value : {scales, zero_points}) {
      if (value == kNoValue || sizes.of(value).rank == 0 || sizes.of(value) == expected) continue;
      sizes.mismatch(value, "other sizes", "a range for each block");
    }
  }

  // One range for all rows is a row for each of them.
  static View rows(Binding& binding, int value, int64_t count) {
    View found = rows_read(binding, value);
    if (binding.shape(value).rank == 0) {
      found.sizes[0] = count;
      found.strides[0] = 0;
    }
    return found;
  }

  int scales, zero_points;
  int64_t block;
};

}  // namespace intact::engine
