// The memory that a step's run reads and writes.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace intact {

// The constants of a step, which it reads from first to last.
struct Weights {
  const uint8_t* data = nullptr;
  size_t bytes = 0;
};

// Blocks of memory by number: block 0 is the arena of the run, then come constants, inputs and outputs.
class Memory {
 public:
  explicit Memory(uint8_t* const* blocks, Weights ahead = {}, std::atomic<bool>* failed = nullptr)
      : blocks_(blocks), ahead_(ahead), failed_(failed) {}
  uint8_t* block(uint32_t number) const { return blocks_[number]; }
  // The weights of a later step, which a step may prefetch.
  Weights ahead() const { return ahead_; }
  // Fails the run, which ends behind this step: it read a number that it cannot use, such as an index out of
  // range. Any thread may call it.
  void fail() const {
    if (failed_ != nullptr) failed_->store(true, std::memory_order_relaxed);
  }

 private:
  uint8_t* const* blocks_;
  Weights ahead_;
  std::atomic<bool>* failed_;
};

// The next multiple of 64, for aligned vectors.
template <class Bytes>
Bytes align64(Bytes n) {
  return (n + 63) / 64 * 64;
}

}  // namespace intact
