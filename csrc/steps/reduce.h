// Sum, mean, maximum or minimum of floats along any axes (N50): numerics.sum_over, mean_over, max_over,
// min_over.
#pragma once

#include <memory>
#include <string>

#include "kernels/float_steps/float_steps.h"
#include "kernels/reduce/reduce.h"
#include "kernels/transpose/transpose.h"
#include "steps/common/real_views.h"

namespace intact {

struct ReduceSpec {
  RealIn x;  // the axes of y, then those that are reduced, in row-major order of their elements
  RealOut y;
  std::string function;  // its name in numerics
};

// Throws std::invalid_argument for a step that is unsafe to run (base/check.h).
std::unique_ptr<Step> make_reduce(const FloatOps& ops, const ReduceOps& extremes, const TransposeOps& turn,
                                  const ReduceSpec& spec);

}  // namespace intact
