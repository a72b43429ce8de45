// The checks of the makers of native steps. They refuse a step that is unsafe to run; Python sees a
// ValueError.
//
// A step is safe to run when all of this holds, whatever bytes are in its blocks:
//   - every byte that a run reads lies in the block of a view that the step declares, halo and slack
//     included, and every byte that it writes in one that it declares as written (Step::reads, Step::writes);
//   - its loops support its types, ranks and sizes, and products and sums of sizes do not overflow
//     (kMostElements, kMostReach);
//   - no operation on its numbers is undefined in C++: scales are finite and not 0, zero points and bounds
//     are on their grids, axes and shifts are in range, and sums of products fit their accumulators.
// Indices that are read during a run cannot be checked before. An index out of range fails the run
// (Memory::fail).
#pragma once

#include <stdexcept>

#include "base/inline.h"

namespace intact {

[[noreturn]] INTACT_APART inline void refuse(const char* what) { throw std::invalid_argument(what); }

inline void demand(bool holds, const char* what) {
  if (!holds) refuse(what);
}

}  // namespace intact
