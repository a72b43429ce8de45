// A program: steps in order, and the blocks of memory that they read and write. It is filled once and then
// only read. Each run has its own Context, so that several runs may proceed at once.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "runtime/step.h"

namespace intact {

enum class BlockKind : uint8_t { arena, constant, input, output };

struct Block {
  BlockKind kind;
  size_t bytes;
  const uint8_t* data;  // of a constant, which outlives the program; nullptr for other blocks
  size_t alignment;     // the largest that a view in it needs
};

// A block that is a part of another one, its parent. There are `count` parts of `bytes` bytes, `stride`
// apart, the first at `offset`.
struct Window {
  // The part that a step sees: one per time (images of a batch), or one per thread (its temporaries).
  enum class Of : uint8_t { time, thread };
  Of of;
  uint32_t block, parent;
  size_t offset, bytes, stride, count;
};

// Steps [begin, end) that run `times` times before the next step, each time for a few images of a batch.
// Each time is run by one thread.
struct Repeat {
  size_t begin, end, times;
};

// All methods that add throw std::invalid_argument for steps that are unsafe to run (base/check.h).
class Program {
 public:
  Program() { blocks_.push_back({BlockKind::arena, 0, nullptr, 1}); }

  void arena(size_t bytes);
  // Declares a tensor of the arena, halo included. Once there are any, every view of the arena must be
  // inside one.
  void tensor(size_t offset, size_t bytes);
  uint32_t constant(const void* data, size_t bytes);
  uint32_t input(size_t bytes) { return block({BlockKind::input, bytes, nullptr, 1}); }
  uint32_t output(size_t bytes) { return block({BlockKind::output, bytes, nullptr, 1}); }
  uint32_t window(Window::Of of, uint32_t parent, size_t offset, size_t bytes, size_t stride, size_t count);
  void add(std::shared_ptr<const Step> step);
  // Steps that are added from now on, until the next call, form a repeat of so many times. Only they may use
  // windows, and they write only to windows.
  void repeat(size_t times);

  const std::vector<Block>& blocks() const { return blocks_; }
  const std::vector<std::shared_ptr<const Step>>& steps() const { return steps_; }
  const std::vector<Window>& windows() const { return windows_; }
  // The repeats in order. Steps that run once belong to none.
  const std::vector<Repeat>& repeats() const { return repeats_; }
  // The repeat that begins with this step, or nullptr.
  const Repeat* repeat_from(size_t step) const;
  // The window that a block is, or nullptr.
  const Window* window_of(size_t block) const;
  // The weights of the next step that has any.
  Weights ahead(size_t step) const { return ahead_[step]; }
  size_t scratch() const { return scratch_; }  // bytes per thread, the most that a step needs

 private:
  uint32_t block(const Block& b);
  void check(const Access& access);
  void check_tensor(int64_t first, int64_t last);
  void check_window(const Window& window, size_t unit);

  struct Interval {
    int64_t begin, end;
  };
  // Of tensors. Once they are sorted, by their beginnings, each ends where the farthest so far does.
  std::vector<Interval> intervals_;
  bool is_sorted_ = true;
  std::vector<Block> blocks_;
  std::vector<std::shared_ptr<const Step>> steps_;
  std::vector<Window> windows_;
  std::vector<Repeat> repeats_;
  size_t times_ = 1;     // of the repeat that is being filled
  bool opens_ = false;  // the next step is the first of that repeat
  std::vector<Weights> ahead_;
  size_t scratch_ = 0;
};

}  // namespace intact
