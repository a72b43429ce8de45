// What layers of codes check alike: the low bytes of codes of 16 bits.
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

}  // namespace intact::engine
