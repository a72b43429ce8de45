// Element-wise operations on tensors of any type: comparisons, logic, where, casts, arithmetic of integers
// (N53). src/intact/numerics/elementwise.py defines each of them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "kernels/elementwise/elementwise.h"
#include "runtime/step.h"

namespace intact {

// Views have the sizes of y, may broadcast (strides of 0), and lie in any order of axes.
struct ElementwiseSpec {
  std::string operation;
  std::vector<View> xs;
  View y;
};

// Throws std::invalid_argument for a step that is unsafe to run (base/check.h).
std::unique_ptr<Step> make_elementwise(const ElementwiseOps& ops, const ElementwiseSpec& spec);

}  // namespace intact
