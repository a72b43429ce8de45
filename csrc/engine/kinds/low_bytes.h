// What layers of codes check alike: their filters, and the low bytes of codes of 16 bits.
#pragma once

#include "engine/kinds/epilogue.h"

namespace intact::engine {

constexpr int64_t kMostShift = 7;

// Refuses low bytes that are of other codes than the high ones.
inline void check_low(const Checker& checker, int high, int low, int64_t shift) {
  checker.that(0 <= shift && shift <= (low == kNoValue ? 0 : kMostShift), "sums rounded by another exponent");
  if (low == kNoValue) return;
  checker.codes(high, low);
  checker.one_rank(high, low);
  const Codes &above = *checker.grid(high), &below = *checker.grid(low);
  const bool matching = above.scale == static_cast<double>(static_cast<float>(256 * below.scale));
  checker.that(matching && !above.is_signed && !below.is_signed, "low bytes of the high ones");
}

// Refuses weights that are no filters of codes.
inline void check_filters(const Checker& checker, int x, int weight, int64_t groups,
                          const EpilogueRecord& epilogue) {
  const Shape& shape = checker.sizes(weight);
  epilogue.check(checker, shape[0]);
  for (const int64_t n : shape) checker.that(0 < n && n <= (int64_t{1} << 24), "weights that are not empty");
  checker.that(groups > 0 && shape[0] % groups == 0, "groups that divide the channels");
  checker.codes(x);
}

}  // namespace intact::engine
