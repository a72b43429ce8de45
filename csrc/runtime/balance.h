// Computes, without a run, how evenly the items of a step divide among threads.
#pragma once

#include "runtime/step.h"

namespace intact {

// The work of the thread that has the most. The model: Workers deals out chunks of items, each thread takes
// the next chunk when it is done, and an item costs Step::work.
int64_t most_work(const Step& step, int threads);

// The same divided by an equal share: 1 if all threads have the same work, and the number of threads if one
// thread does everything.
double largest_share(const Step& step, int threads);

// Selects the evenest of several ways to cut a step, which are tried one after the other, coarse ones first.
// Among equally good ones it takes the finest whose items are still dealt out one by one, so that a thread
// which begins late does fewer of them.
class Evenest {
 public:
  // More items per thread do not help: several items are then dealt out as one chunk.
  static constexpr int64_t kMostItems = 16;

  explicit Evenest(int threads) : threads_(threads) {}
  // Returns whether the current cut is the best so far. The last argument is work of each thread besides
  // its items.
  bool takes(const Step& step, int64_t more = 0);

 private:
  const int threads_;
  int64_t least_ = -1;
  int64_t equal_share_ = 0;  // of the coarsest cut's work: no finer cut has less, for it rounds up more
  size_t items_ = 0;
};

}  // namespace intact
