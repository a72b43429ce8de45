// Element by element, of tensors of any type: comparisons, logic, choices, casts, arithmetic of integers.
// What each operation means stands in src/intact/numerics/integers/elementwise.py (N53).
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

// Throws std::invalid_argument for what is unsafe to run (base/check.h).
std::unique_ptr<Step> make_elementwise(const ElementwiseOps& ops, const ElementwiseSpec& spec);

}  // namespace intact
