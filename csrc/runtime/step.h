// What the executor runs: steps over views of a few blocks of memory. Everything about a step is fixed when
// it is made, shapes and addresses included; run() allocates nothing and throws nothing.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/type.h"

namespace intact {

// Constants of a step that are read from one end to the other.
struct Weights {
  const uint8_t* data = nullptr;
  size_t bytes = 0;
};

// Blocks of memory, by number: 0 is the arena of this run, then the constants, inputs and outputs.
class Memory {
 public:
  explicit Memory(uint8_t* const* blocks, Weights ahead = {}, std::atomic<bool>* failed = nullptr)
      : blocks_(blocks), ahead_(ahead), failed_(failed) {}
  uint8_t* block(uint32_t number) const { return blocks_[number]; }
  // What a later step will read: a step that has the time may fetch it in passing.
  Weights ahead() const { return ahead_; }
  // A step has met a number that it cannot work with: the run ends behind it. Any thread may say so.
  void fail() const {
    if (failed_ != nullptr) failed_->store(true, std::memory_order_relaxed);
  }

 private:
  uint8_t* const* blocks_;
  Weights ahead_;
  std::atomic<bool>* failed_;
};

// The next place where a vector may be aligned.
template <class Bytes>
Bytes align64(Bytes n) {
  return (n + 63) / 64 * 64;
}

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

// Bytes that every tensor in the arena has behind it: kernels may read (never write) so far. Inputs and
// constants are other people's memory and have none: what reads over an edge there is refused.
constexpr size_t kSlack = 64;

// That run() touches this view; a reader touches `slack` bytes behind it too.
struct Access {
  View view;
  bool writes;
  size_t slack;
};

// One of several inner loops of a step, and how many products it forms in a run, padding included.
struct Loop {
  std::string name;
  int64_t products;
};

class Step {
 public:
  virtual ~Step() = default;
  // Number of independent pieces of work. The executor deals them out in ranges over the threads; a step
  // whose items() is 1 wakes nobody. Pieces of fewer than some 5 microseconds cost more than they save.
  virtual size_t items() const = 0;
  // What an item takes beside the others, in units of the step's own: for balance.h alone, never in a run.
  virtual int64_t work([[maybe_unused]] size_t item) const { return 1; }
  // Bytes of scratch that run() wants, aligned to 64; one piece for each thread.
  virtual size_t scratch() const { return 0; }
  // What a profile calls it: the kernel's name where there is one.
  virtual std::string name() const { return "native"; }
  // What a profile says of its inner loops; nothing where there is one. Asked for by profiles alone.
  virtual std::vector<Loop> loops() const { return {}; }
  // What steps before it may fetch for it; nothing where that does not pay.
  virtual Weights weights() const { return {}; }
  virtual void run(const Memory& memory, size_t begin, size_t end, uint8_t* scratch) const noexcept = 0;

  const std::vector<Access>& accesses() const { return accesses_; }

 protected:
  // A step declares every view that run() will touch when it is made; Program::add holds them, halos of what
  // is read and slack included, against the blocks. What is not declared, a checked run finds (checked.h).
  void reads(const View& view, size_t slack = 0) { accesses_.push_back({view, false, slack}); }
  void writes(View view) {
    view.halo = {};
    writes_with_halo(view);
  }
  void writes_with_halo(const View& view) { accesses_.push_back({view, true, 0}); }

 private:
  std::vector<Access> accesses_;
};

}  // namespace intact
