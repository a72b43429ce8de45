// Checks of views for the makers of steps: no plan file, however wrong, makes run() leave its blocks.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "runtime/step.h"

namespace intact {

// Sums of products of sizes below these do not overflow 64 bits.
constexpr int64_t kMostElements = int64_t{1} << 40;
constexpr int64_t kMostReach = int64_t{1} << 46;

inline size_t elements_of(const View& v) {
  demand(v.rank >= 0 && v.rank <= kMaxRank, "a view has more axes than steps walk");
  int64_t n = 1;
  bool empty = false;
  for (int i = 0; i < v.rank; ++i) {
    demand(v.sizes[i] >= 0 && v.sizes[i] < kMostElements, "a size is out of range");
    empty = empty || v.sizes[i] == 0;
    if (empty) continue;
    const int64_t reach = kMostReach / v.sizes[i];
    demand(-reach <= v.strides[i] && v.strides[i] <= reach, "a view reaches too far");
    demand(n < kMostElements / v.sizes[i], "a view has too many elements");
    n *= v.sizes[i];
  }
  return empty ? 0 : static_cast<size_t>(n);
}

inline void demand_same_sizes(const View& a, const View& b) {
  bool same = a.rank == b.rank;
  for (int i = 0; same && i < a.rank; ++i) same = a.sizes[i] == b.sizes[i];
  demand(same, "views of one step differ in their sizes");
}

// Demands a dense vector of `size` elements.
inline void demand_vector(const View& v, Type type, size_t size, const char* what) {
  demand(v.type == type && v.rank == 1 && v.sizes[0] >= 0 && static_cast<size_t>(v.sizes[0]) == size, what);
  demand(size < 2 || v.strides[0] == static_cast<int64_t>(bytes_of(type)), what);
}

// Demands an image of bytes in NHWC whose channels are neighbours in memory.
inline void demand_image(const View& v, const char* what) {
  demand(v.type == Type::u8 && v.rank == 4 && (v.sizes[3] < 2 || v.strides[3] == 1), what);
}

}  // namespace intact
