// The memory that a step's run reads and writes.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

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

}  // namespace intact
