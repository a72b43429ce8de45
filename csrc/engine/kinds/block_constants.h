// Constant weights in blocks along their last axis (N67), as steps of several kinds name them.
#pragma once

#include <string>

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

  int weight, scales, zero_points, minima, sub_scales, sub_minima, table;
  int64_t inputs, bits, block;
  // What tells these codes from those of equal bytes in other layers, and what they are called in panels.
  const std::string form, panels;
};

}  // namespace intact::engine
