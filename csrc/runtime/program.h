// Steps in order, and the blocks of memory that they read and write. A program is filled once and then only
// read; each run has a Context of its own, so that any number of them may go on at once.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "runtime/step.h"

namespace intact {

enum class BlockKind : uint8_t { arena, constant, input, output };

struct Block {
  BlockKind kind;
  size_t bytes;
  const uint8_t* data;  // of a constant, which outlives the program; else nullptr
  size_t alignment;     // that the views in it need
};

// All methods that add throw std::invalid_argument for what cannot be run safely.
class Program {
 public:
  Program() { blocks_.push_back({BlockKind::arena, 0, nullptr, 1}); }

  void arena(size_t bytes);
  // What lies in the arena, halo included: every view there lies within one of these, once there are any.
  void tensor(size_t offset, size_t bytes) { tensors_.insert({offset, bytes}); }
  uint32_t constant(const void* data, size_t bytes);
  uint32_t input(size_t bytes) { return block({BlockKind::input, bytes, nullptr, 1}); }
  uint32_t output(size_t bytes) { return block({BlockKind::output, bytes, nullptr, 1}); }
  void add(std::shared_ptr<const Step> step);

  const std::vector<Block>& blocks() const { return blocks_; }
  const std::vector<std::shared_ptr<const Step>>& steps() const { return steps_; }
  // The weights of the first step behind this one that has some.
  Weights ahead(size_t step) const { return ahead_[step]; }
  size_t scratch() const { return scratch_; }  // the most that a step wants, for one thread

 private:
  uint32_t block(const Block& b);
  void check(const Access& access);

  std::set<std::pair<size_t, size_t>> tensors_;  // offset, bytes
  std::vector<Block> blocks_;
  std::vector<std::shared_ptr<const Step>> steps_;
  std::vector<Weights> ahead_;
  size_t scratch_ = 0;
};

}  // namespace intact
