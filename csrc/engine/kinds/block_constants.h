// Constant weights in blocks along their last axis (N67), as steps of several kinds name them.
#pragma once

#include "engine/checker.h"
#include "engine/fields.h"
#include "engine/plan_step.h"

namespace intact::engine {

struct BlockConstants {
  explicit BlockConstants(Fields& f)
      : weight(f.constant("weight", Type::u8, 2)),
        scales(f.constant("scales", Type::f32, 2)),
        zero_points(f.constant("zero_points", Type::u8, 2, true)),
        minima(f.constant("minima", Type::f32, 2, true)),
        inputs(f.integer("inputs")),
        bits(f.integer("bits")),
        block(f.integer("block")) {}

  void check(const Checker& checker) const {
    const Shape &codes = checker.sizes(weight), &ranges = checker.sizes(scales);
    const int64_t most = int64_t{1} << 24;
    checker.that(2 <= bits && bits <= 8, "codes of 2 to 8 bits");
    checker.that(0 < inputs && inputs <= most && 0 < block, "blocks of elements");
    checker.that(0 < codes[0] && codes[0] <= most && codes[1] == (inputs * bits + 7) / 8,
                 "packed codes for each row");
    checker.that(ranges[0] == codes[0] && ranges[1] == (inputs - 1) / block + 1, "a scale for each block");
    for (const int value : {zero_points, minima}) {
      checker.that(value == kNoValue || checker.sizes(value) == ranges, "as many offsets as scales");
    }
  }

  int weight, scales, zero_points, minima;
  int64_t inputs, bits, block;
};

}  // namespace intact::engine
