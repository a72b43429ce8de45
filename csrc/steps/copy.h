// Elements as they are, in another place or order of axes: transpose, slice, concat, expand, reshape and pad
// are copies between views.
#pragma once

#include <memory>

#include "kernels/transpose/transpose.h"
#include "runtime/step.h"

namespace intact {

// Both views have one type and one shape, and do not overlap.
struct CopySpec {
  View x, y;
};

// Throws std::invalid_argument for a step that is unsafe to run (base/check.h).
std::unique_ptr<Step> make_copy(const TransposeOps& transpose, const CopySpec& spec);

}  // namespace intact
