// A function of one float, element by element (N38, N64).
#pragma once

#include <memory>
#include <string>

#include "kernels/float_steps/float_steps.h"
#include "kernels/transpose/transpose.h"
#include "runtime/step.h"
#include "steps/common/real_views.h"

namespace intact {

struct FunctionSpec {
  RealIn x;
  RealOut y;
  std::string function;  // a name of kernels/float_steps
};

// Throws std::invalid_argument for a step that is unsafe to run (base/check.h).
std::unique_ptr<Step> make_function(const FloatOps& ops, const TransposeOps& turn, const FunctionSpec& spec);

}  // namespace intact
