// What one run of a program needs for itself: an arena, scratch, and where inputs and outputs lie.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/checked.h"
#include "runtime/program.h"
#include "runtime/thread_pool.h"

namespace intact {

struct FreeAligned {
  void operator()(uint8_t* p) const;
};
using Aligned = std::unique_ptr<uint8_t, FreeAligned>;
// `bytes` of zeros at a multiple of 64.
Aligned make_aligned(size_t bytes);

// Belongs to one run at a time. The program must be complete; it and the thread pool must outlive it.
class Context {
 public:
  // `checked`: steps are held to what they declare (checked.h), at a price.
  Context(const Program& program, ThreadPool& thread_pool, bool checked = false);

  // Where an input or output lies from now on: as many bytes as the block has, at a multiple of what its
  // views need. Throws std::invalid_argument where it does not.
  void place(uint32_t block, const void* data, size_t bytes);
  // Steps begin to end, no repeat in part, by the thread pool, or by this thread alone where another run has
  // it. `seconds` has one number for each step of the program, or is nullptr: repeated steps share the time
  // of all repeats by what each one took. Returns the step behind which it ended, because that one failed
  // (Memory::fail), else `end`. Throws std::logic_error where it is checked, and finds something.
  size_t run(size_t begin, size_t end, double* seconds);

  uint8_t* arena() const { return arena_.get(); }
  const Program& program() const { return program_; }

 private:
  // What a thread has while it runs repeated steps.
  struct Seat {
    std::vector<uint8_t*> blocks;
    std::vector<double> seconds;  // of each step of the program
  };

  void run_step(size_t step, Workers* workers);
  void run_repeat(const Repeat& repeat, Workers* workers, double* seconds);
  void run_once(const Repeat& repeat, size_t time, size_t seat, bool timed);
  void check_range(size_t begin, size_t end) const;

  const Program& program_;
  ThreadPool& thread_pool_;
  Aligned arena_, scratch_;
  std::atomic<bool> running_{false}, failed_{false};
  std::vector<uint8_t*> blocks_;
  std::vector<Seat> seats_;  // where something is repeated
  std::unique_ptr<Checker> checker_;  // nullptr: nothing is checked
};

}  // namespace intact
