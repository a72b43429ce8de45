// One number for the floats along any axes: numerics.sum_over and numerics.mean_over (N50).
#pragma once

#include <memory>
#include <string>

#include "kernels/float_steps/float_steps.h"
#include "kernels/reduce/reduce.h"
#include "kernels/transpose/transpose.h"
#include "steps/common/real_views.h"

namespace intact {

struct ReduceSpec {
  RealIn x;  // the axes of y, then those that go, in the order in which their elements are counted
  RealOut y;
  std::string function;  // what numerics calls it
};

// Throws std::invalid_argument for what is unsafe to run (base/check.h).
std::unique_ptr<Step> make_reduce(const FloatOps& ops, const ReduceOps& extremes, const TransposeOps& turn,
                                  const ReduceSpec& spec);

}  // namespace intact
