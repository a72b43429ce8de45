// The sum of two tensors of codes (N26).
#pragma once

#include <memory>

#include "base/byte_grid.h"
#include "base/divisor.h"
#include "kernels/pointwise/pointwise.h"
#include "runtime/step.h"

namespace intact {

struct AddSpec {
  View a, b, y;
  Operand from_a, from_b;
  Divisor divisor;  // divisor_of_sum's
  ByteGrid grid;
};

// The division by the scale of y. Steps of all sizes share it. Throws std::invalid_argument for a scale or a
// grid that no output has.
Divisor divisor_of_sum(float scale, const ByteGrid& grid);

// Throws std::invalid_argument for a step that is unsafe to run (base/check.h).
std::unique_ptr<Step> make_add(const PointwiseOps& ops, const AddSpec& spec);

}  // namespace intact
