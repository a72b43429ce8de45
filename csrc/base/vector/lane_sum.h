// Sums that no register width changes: numerics.lane_sum.
#pragma once

#include <array>
#include <cstddef>

#include "base/vector/vector.h"

namespace intact::vec {

constexpr size_t kLanes = 16;

// numerics.lane_sum of what add() is given.
template <class V>
class LaneSum {
 public:
  LaneSum() { parts_.fill(V::set(0.0f)); }

  // Of elements [index, index + n).
  void add(size_t index, F<V> v, size_t n) {
    F<V>& part = parts_[index / V::kWidth % parts_.size()];
    part = part + (n == V::kWidth ? v : V::keep(v, n));
  }

  float total() const { return V::tree(parts_); }

 private:
  std::array<F<V>, kLanes / V::kWidth> parts_;
};

}  // namespace intact::vec
