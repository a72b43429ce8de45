// A tensor of a step: where it lies, and how.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/type.h"
#include "runtime/memory.h"

namespace intact {

constexpr int kMaxRank = 6;

// A tensor as a step walks it: sizes and strides in bytes, outermost first, in the order in which the step
// wants them (a 4-D image: n, h, w, c; whatever order the bytes lie in). `offset` is that of element 0.
// Around the rows of an image there may be a halo of `halo` pixels (top, left, bottom, right), which belongs
// to the same memory and holds the byte of real 0, so that a convolution reads padding as it reads pixels.
// Every view is checked against its block before the first run; kSlack bytes behind it may be read.
// `low` and `high` bound the bytes that a tensor of codes can hold, its halo included: proofs rest on them.
struct View {
  uint32_t block = 0;
  size_t offset = 0;
  Type type = Type::u8;
  int rank = 0;
  std::array<int64_t, kMaxRank> sizes{};
  std::array<int64_t, kMaxRank> strides{};
  std::array<int64_t, 4> halo{};
  uint8_t low = 0, high = 255;

  template <class T>
  T* at(const Memory& memory) const {
    return reinterpret_cast<T*>(memory.block(block) + offset);
  }
  // 2^62 stands for all that is more: no block holds it.
  int64_t elements() const {
    constexpr int64_t kMost = int64_t{1} << 62;
    int64_t n = 1;
    for (int i = 0; i < rank; ++i) {
      if (sizes[i] <= 0) return 0;
      n = n > kMost / sizes[i] ? kMost : n * sizes[i];
    }
    return n;
  }
};

}  // namespace intact
