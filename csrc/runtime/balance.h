// How evenly a step's items divide among threads, found without running anything.
#pragma once

#include "runtime/step.h"

namespace intact {

// The work of the thread that has the most. Items are dealt out as Workers deals them, each thread takes the
// next chunk when it has done its own, and what an item takes is what the step says (Step::work).
int64_t most_work(const Step& step, int threads);

// The same over what each had if all had the same: 1 is even, and as many as there are threads: one does it
// all.
double largest_share(const Step& step, int threads);

// The evenest of several ways to cut a step, which are shown one after the other, coarse ones first. Among
// those that are as good it takes the finest whose items are still dealt out one by one: a thread that begins
// late then does fewer of them.
class Evenest {
 public:
  // More items for each thread make nothing more even: they are dealt out in fewer chunks.
  static constexpr int64_t kMostItems = 16;

  explicit Evenest(int threads) : threads_(threads) {}
  // Whether the step as it is cut now is the best so far, where each thread does so much more than its items.
  bool takes(const Step& step, int64_t more = 0);

 private:
  const int threads_;
  int64_t least_ = -1;
  size_t items_ = 0;
};

}  // namespace intact
