// A function of two floats, element by element (N48, N49).
#pragma once

#include <memory>

#include "kernels/float_steps/float_steps.h"
#include "kernels/transpose/transpose.h"
#include "runtime/step.h"
#include "steps/common/real_views.h"

namespace intact {

struct BinarySpec {
  RealIn a, b;
  RealOut y;
  BinaryKind kind;
};

// Throws std::invalid_argument for a step that is unsafe to run (base/check.h).
std::unique_ptr<Step> make_binary(const FloatOps& ops, const TransposeOps& turn, const BinarySpec& spec);

}  // namespace intact
