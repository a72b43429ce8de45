// Element-wise steps in floats: functions of one and of two. Views may broadcast (stride 0) and lie in any
// order of axes; y may be an input of the same dtype.
#pragma once

#include <memory>
#include <string>

#include "kernels/fake_quantize/fake_quantize.h"
#include "kernels/float_steps/float_steps.h"
#include "kernels/transpose/transpose.h"
#include "steps/real_views.h"

namespace intact {

struct FunctionSpec {
  RealIn x;
  RealOut y;
  std::string function;  // a name of kernels/float_steps
};

struct ClipSpec {
  RealIn x;
  RealOut y;
  float low, high;
};

struct FakeQuantizeSpec {
  RealIn x;
  RealOut y;
  float scale, low, high;  // low, high: the ends of the grid, less its zero point
};

struct BinarySpec {
  RealIn a, b;
  RealOut y;
  BinaryKind kind;
};

// All throw std::invalid_argument for what is unsafe to run (base/check.h).
std::unique_ptr<Step> make_function(const FloatOps& ops, const TransposeOps& turn, const FunctionSpec& spec);
std::unique_ptr<Step> make_clip(const FloatOps& ops, const TransposeOps& turn, const ClipSpec& spec);
std::unique_ptr<Step> make_fake_quantize(const FloatOps& ops, const TransposeOps& turn,
                                         const FakeQuantizeOps& fake_quantize, const FakeQuantizeSpec& spec);
std::unique_ptr<Step> make_binary(const FloatOps& ops, const TransposeOps& turn, const BinarySpec& spec);

}  // namespace intact
