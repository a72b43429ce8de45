// What products multiply by weights in blocks: rows of floats, or of codes with ranges of their own.
#pragma once

#include <string>

#include "engine/binding.h"
#include "engine/kinds/block_constants.h"
#include "engine/kinds/views.h"
#include "engine/sizes.h"
#include "steps/block_linear.h"

namespace intact::engine {

// Scales and zero points of codes: one range for all rows, or one for each block of each row.
struct BlockRanges {
  BlockRanges(Fields& f, bool optional, bool has_zero_points)
      : scales(f.operand("x_scales", optional)),
        zero_points(has_zero_points ? f.operand("x_zero_points", true) : kNoValue),
        block(f.integer("x_block")) {}

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
