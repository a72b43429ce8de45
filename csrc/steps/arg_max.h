// The index of the largest or smallest element along an axis (N54).
#pragma once

#include <memory>

#include "kernels/transpose/transpose.h"
#include "runtime/step.h"

namespace intact {

// The index of the largest (smallest) element along the axis; of equal elements the first, or the last. A
// NaN counts as larger, and as smaller, than any number.
struct ArgMaxSpec {
  View x, y;  // y is i64, and the axis has size 1 there
  int axis;
  bool smallest, last;
};

// Throws std::invalid_argument for a step that is unsafe to run (base/check.h).
std::unique_ptr<Step> make_arg_max(const TransposeOps& turn, const ArgMaxSpec& spec);

}  // namespace intact
