// Constant weights in blocks along their last axis (N67), as steps of several kinds name them.
#pragma once

#include <string>

#include "engine/checker.h"
#include "engine/fields.h"
#include "engine/panels.h"
#include "engine/plan_step.h"

namespace intact::engine {

struct BlockConstants {
  explicit BlockConstants(Fields& f)
      : weight(f.constant("weight", Type::u8, 2)),
        scales(f.constant("scales", Type::f32, 2)),
        zero_points(f.constant("zero_points", Type::u8, 2, true)),
        minima(f.constant("minima", Type::f32, 2, true)),
        sub_scales(f.constant("sub_scales", Type::i8, 2, true)),
        sub_minima(f.constant("sub_minima", Type::i8, 2, true)),
        table(f.constant("table", Type::f32, 1, true)),
        inputs(f.integer("inputs")),
        bits(f.integer("bits")),
        block(f.integer("block")),
        form(std::to_string(inputs) + "x" + std::to_string(bits)),
        panels(Panels{inputs, bits}.form()) {}

  void check(const Checker& checker) const {
    const Shape& codes = checker.sizes(weight);
    const int64_t most = kMostBlockElements;
    checker.that(2 <= bits && bits <= 8, "codes of 2 to 8 bits");
    checker.that(0 < inputs && inputs <= most && 0 < block, "blocks of elements");
    checker.that(0 < codes[0] && codes[0] <= most && codes[1] == (inputs * bits + 7) / 8,
                 "packed codes for each row");
    check_levels(checker, scales, sub_scales);
    if (minima != kNoValue) check_levels(checker, minima, sub_minima);
    checker.that(minima != kNoValue || sub_minima == kNoValue, "no integers of minima that there are not");
    checker.that(zero_points == kNoValue || has_blocks(checker, zero_points), "a zero point for each block");
    if (table == kNoValue) return;
    checker.that(bits == 4 && checker.sizes(table)[0] == 16, "a table of 16 values for codes of 4 bits");
    checker.that(zero_points == kNoValue, "no zero points of places in a table");
  }

  int weight, scales, zero_points, minima, sub_scales, sub_minima, table;
  int64_t inputs, bits, block;
  // What tells these codes from those of equal bytes in other layers, and what they are called in panels.
  const std::string form, panels;

 private:
  bool has_blocks(const Checker& checker, int value) const {
    const Shape& sizes = checker.sizes(value);
    return sizes[0] == checker.sizes(weight)[0] && sizes[1] == (inputs - 1) / block + 1;
  }

  // A number for each block; or integers of them, and a number for as many blocks of each row.
  void check_levels(const Checker& checker, int reals, int fine) const {
    if (fine == kNoValue) return checker.that(has_blocks(checker, reals), "a number for each block");
    checker.that(has_blocks(checker, fine), "an integer for each block");
    const Shape& supers = checker.sizes(reals);
    checker.that(
        supers[0] == checker.sizes(fine)[0] && supers[1] > 0 && checker.sizes(fine)[1] % supers[1] == 0,
        "super-blocks of as many blocks each");
  }
};

}  // namespace intact::engine
