// Floats rounded to a grid and kept as floats, element by element (N56).
#pragma once

#include <memory>

#include "kernels/fake_quantize/fake_quantize.h"
#include "kernels/float_steps/float_steps.h"
#include "kernels/transpose/transpose.h"
#include "runtime/step.h"
#include "steps/common/real_views.h"

namespace intact {

struct FakeQuantizeSpec {
  RealIn x;
  RealOut y;
  float scale, low, high;  // low, high: the ends of the grid minus its zero point
};

// Throws std::invalid_argument for a step that is unsafe to run (base/check.h).
std::unique_ptr<Step> make_fake_quantize(const FloatOps& ops, const TransposeOps& turn,
                                         const FakeQuantizeOps& fake_quantize, const FakeQuantizeSpec& spec);

}  // namespace intact
