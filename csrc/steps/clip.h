// Floats within two bounds, element by element (N49).
#pragma once

#include <memory>

#include "kernels/float_steps/float_steps.h"
#include "kernels/transpose/transpose.h"
#include "runtime/step.h"
#include "steps/common/real_views.h"

namespace intact {

struct ClipSpec {
  RealIn x;
  RealOut y;
  float low, high;
};

// Throws std::invalid_argument for a step that is unsafe to run (base/check.h).
std::unique_ptr<Step> make_clip(const FloatOps& ops, const TransposeOps& turn, const ClipSpec& spec);

}  // namespace intact
