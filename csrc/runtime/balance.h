// How evenly a step's items divide among threads, found without running anything.
#pragma once

#include "runtime/step.h"

namespace intact {

// The work of the thread that has the most, over what each had if all had the same: 1 is even, and as many as
// there are threads: one does it all. Items are dealt out as Workers deals them, each thread takes the next
// chunk when it has done its own, and what an item takes is what the step says (Step::work).
double largest_share(const Step& step, int threads);

}  // namespace intact
