// How makers of native steps refuse a step that is unsafe to run: Python sees a ValueError.
//
// A step is safe to run when all of this holds, whatever bytes its blocks will have:
//   - every byte that a run reads lies in the block of a view that the step declares, halo and slack
//     included, and every byte that it writes in one that it declares as written (Step::reads, Step::writes);
//   - types, ranks and sizes are those that the loops were written for, and products and sums of sizes do not
//     overflow (kMostElements, kMostReach);
//   - numbers are such that C++ defines what is computed: scales are finite and not 0, zero points and bounds
//     lie on their grids, axes and shifts in range, sums of products in their accumulators.
// Indices that are read in a run cannot be checked before: a run with one out of range fails (Memory::fail).
#pragma once

#include <stdexcept>

namespace intact {

[[noreturn]] inline void refuse(const char* what) { throw std::invalid_argument(what); }

inline void demand(bool holds, const char* what) {
  if (!holds) refuse(what);
}

}  // namespace intact
