// The memory of one run of a program: arena, scratch, and the addresses of inputs and outputs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <vector>

#include "runtime/checked.h"
#include "runtime/program.h"
#include "runtime/thread_pool.h"

namespace intact {

struct FreeAligned {
  void* block = nullptr;  // as it was allocated
  void operator()(uint8_t*) const { std::free(block); }
};
using Aligned = std::unique_ptr<uint8_t, FreeAligned>;
// Allocates `bytes` of zeros at a multiple of 64.
Aligned make_aligned(size_t bytes);

// The memory of runs, arena and scratch: as much as the largest of the programs needs that take turns in it.
// It is its own and only grows, or its user's.
class Workspace {
 public:
  // What a program on so many threads needs.
  static size_t bytes_for(const Program& program, int threads);
  // Makes room for a program on so many threads. Contexts that were made before have to be attached again.
  // Throws std::invalid_argument where the user's memory is too small.
  void fit(const Program& program, int threads);
  // Uses the user's memory, which lies at a multiple of 64, from now on; nullptr: its own.
  void lend(void* memory, size_t bytes);
  bool uses(const void* memory, size_t bytes) const { return lent_ == memory && lent_bytes_ == bytes; }
  uint8_t* arena() const { return arena_; }
  uint8_t* scratch() const { return scratch_; }
  // Of its own memory.
  size_t bytes() const { return own_bytes_; }

 private:
  Aligned own_;
  size_t own_bytes_ = 0;
  uint8_t* lent_ = nullptr;
  size_t lent_bytes_ = 0;
  uint8_t *arena_ = nullptr, *scratch_ = nullptr;
};

std::shared_ptr<Workspace> make_workspace();

// One run at a time may use a context. The program must be complete; it and the thread pool must outlive the
// context.
class Context {
 public:
  // `checked`: each step is compared with what it declares (checked.h), which is slow.
  Context(const Program& program, ThreadPool& thread_pool, bool checked = false);
  // In memory that contexts of other programs use, too, one at a time.
  Context(const Program& program, ThreadPool& thread_pool, std::shared_ptr<Workspace> workspace);
  // Takes the workspace's turn for the next runs.
  void attach();
  // The same in another one; checked runs stay in their own.
  void attach(std::shared_ptr<Workspace> workspace);

  // Sets the address of an input or output for the next runs. Throws std::invalid_argument if the memory has
  // another size than the block, or lacks the alignment that its views need.
  void place(uint32_t block, const void* data, size_t bytes);
  // Runs steps [begin, end), which must not cut a repeat, on the thread pool, or on this thread alone while
  // another run has the pool. `seconds`: one number per step of the program, or nullptr; the time of a
  // repeat is divided among its steps. `cancelled`: the run stops before its next step once this is true; or
  // nullptr. Returns `end`, or the step that failed (Memory::fail) or that the run stopped at. A checked run
  // throws std::logic_error for a step that breaks its declaration.
  size_t run(size_t begin, size_t end, double* seconds, const std::atomic<bool>* cancelled = nullptr);
  // Whether a step of the last run failed.
  bool failed() const { return failed_.load(std::memory_order_relaxed); }

  uint8_t* arena() const { return workspace_->arena(); }
  const Program& program() const { return program_; }

 private:
  // The data of one thread while it runs repeated steps.
  struct Seat {
    std::vector<uint8_t*> blocks;
    std::vector<double> seconds;  // one per step of the program
  };

  void run_step(size_t step, Executor* executor);
  void run_repeat(const Repeat& repeat, Executor* executor, double* seconds);
  void run_once(const Repeat& repeat, size_t time, size_t seat, bool timed);
  bool is_cancelled() const { return cancelled_ != nullptr && cancelled_->load(std::memory_order_relaxed); }
  void check_range(size_t begin, size_t end) const;

  const Program& program_;
  ThreadPool& thread_pool_;
  std::shared_ptr<Workspace> workspace_;
  std::atomic<bool> running_{false}, failed_{false};
  const std::atomic<bool>* cancelled_ = nullptr;  // of the run that is going on
  std::vector<uint8_t*> blocks_;
  std::vector<Seat> seats_;  // empty where no step is repeated
  std::unique_ptr<Checker> checker_;  // nullptr: runs are not checked
};

}  // namespace intact
