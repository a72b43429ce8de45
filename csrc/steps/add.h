// The sum of two tensors of codes (N26).
#pragma once

#include <memory>

#include "base/byte_grid.h"
#include "kernels/pointwise/pointwise.h"
#include "runtime/step.h"

namespace intact {

struct AddSpec {
  View a, b, y;
  Operand from_a, from_b;
  float scale;  // of y
  ByteGrid grid;
};

// Throws std::invalid_argument for a step that is unsafe to run (base/check.h).
std::unique_ptr<Step> make_add(const PointwiseOps& ops, const AddSpec& spec);

}  // namespace intact
