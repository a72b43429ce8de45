// Codes of one grid to codes of another (N28), where one multiplier does it.
#pragma once

#include <memory>

#include "base/byte_grid.h"
#include "kernels/pointwise/pointwise.h"
#include "runtime/step.h"

namespace intact {

struct RescaleSpec {
  View x, y;
  Operand from;
  ByteGrid grid;
};

// Throws std::invalid_argument for a step that is unsafe to run (base/check.h).
std::unique_ptr<Step> make_rescale(const PointwiseOps& ops, const RescaleSpec& spec);

}  // namespace intact
