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

// A block within another one, of its kind: a part of the `bytes` from `offset` on of the `parent`. There are
// `count` such parts, `stride` bytes apart.
struct Window {
  // What the steps that name it are about: images of one time, or what a thread has for itself meanwhile.
  enum class Of : uint8_t { time, thread };
  Of of;
  uint32_t block, parent;
  size_t offset, bytes, stride, count;
};

// Steps [begin, end) that are run `times` times before the next: for a few images of a batch each time. The
// times are dealt out to threads, which run all of the steps by themselves.
struct Repeat {
  size_t begin, end, times;
};

// All methods that add throw std::invalid_argument for what is unsafe to run (base/check.h).
class Program {
 public:
  Program() { blocks_.push_back({BlockKind::arena, 0, nullptr, 1}); }

  void arena(size_t bytes);
  // What lies in the arena, halo included: every view there lies within one of these, once there are any.
  void tensor(size_t offset, size_t bytes) { tensors_.insert({offset, bytes}); }
  uint32_t constant(const void* data, size_t bytes);
  uint32_t input(size_t bytes) { return block({BlockKind::input, bytes, nullptr, 1}); }
  uint32_t output(size_t bytes) { return block({BlockKind::output, bytes, nullptr, 1}); }
  uint32_t window(Window::Of of, uint32_t parent, size_t offset, size_t bytes, size_t stride, size_t count);
  void add(std::shared_ptr<const Step> step);
  // The steps added from now on, until the next call, are run so many times, as one. They alone name windows,
  // and write nothing else.
  void repeat(size_t times);

  const std::vector<Block>& blocks() const { return blocks_; }
  const std::vector<std::shared_ptr<const Step>>& steps() const { return steps_; }
  const std::vector<Window>& windows() const { return windows_; }
  // In order. Steps that are run once are in none.
  const std::vector<Repeat>& repeats() const { return repeats_; }
  // The repeat that begins with this step; nullptr where none does.
  const Repeat* repeat_from(size_t step) const;
  // nullptr: the block is none.
  const Window* window_of(size_t block) const;
  // The weights of the first step behind this one that has some.
  Weights ahead(size_t step) const { return ahead_[step]; }
  size_t scratch() const { return scratch_; }  // the most that a step wants, for one thread

 private:
  uint32_t block(const Block& b);
  void check(const Access& access);
  void check_tensor(int64_t first, int64_t last) const;
  void check_window(const Window& window, size_t unit);

  std::set<std::pair<size_t, size_t>> tensors_;  // offset, bytes
  std::vector<Block> blocks_;
  std::vector<std::shared_ptr<const Step>> steps_;
  std::vector<Window> windows_;
  std::vector<Repeat> repeats_;
  size_t times_ = 1;     // of the steps that are added now
  bool opens_ = false;  // the next step is the first of them
  std::vector<Weights> ahead_;
  size_t scratch_ = 0;
};

}  // namespace intact
