// A view: the memory of a tensor as a step reads or writes it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/type.h"
#include "runtime/memory.h"

namespace intact {

constexpr int kMaxRank = 6;

// Sizes, and strides in bytes, have the order of axes that the step expects, whatever the order in memory;
// for a 4-D image n, h, w, c. `offset` is that of element 0. An image may have a halo: pixels around its
// rows (top, left, bottom, right) in the same memory, which hold the byte of real 0. A convolution then
// reads padding like pixels. Program::add checks every view against its block; kSlack bytes behind it may be
// read. `low` and `high` bound the bytes that a tensor of codes can hold, its halo included: the proofs that
// sums do not overflow rely on them.
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
  // Saturates at 2^62, which no block holds.
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
