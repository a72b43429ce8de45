// The range of many rows, 0 among them, and the grid that it gives (N68).
#pragma once

#include <algorithm>
#include <limits>

#include "kernels/dynamic_quantize/ranges.h"
#include "kernels/reduce/reduce.h"

namespace intact {

struct WholeRange {
  float low = 0.0f, high = 0.0f;

  // A NaN in a row makes low a NaN.
  void add(const ReduceOps& ops, const float* row, size_t n) {
    if (n == 0 || low != low) return;
    const MinMax ends = ops.minmax(row, n);
    merge(ends.min, ends.max);
  }
  // The ends of more values; in any order the result is the same.
  void merge(float least, float most) {
    if (low != low) return;
    low = least == least ? std::min(low, least) : std::numeric_limits<float>::quiet_NaN();
    high = std::max(high, most);
  }
  bool is_finite() const {
    return low >= -std::numeric_limits<float>::max() && high <= std::numeric_limits<float>::max();
  }
  float scale(bool is_unsigned) const {
    if (!is_finite()) return std::numeric_limits<float>::quiet_NaN();
    return is_unsigned ? uint8_scale(low, high) : int8_scale(std::max(-low, high));
  }
};

}  // namespace intact
