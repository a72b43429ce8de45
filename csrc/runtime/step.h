// A step: what the executor runs, on views of a few blocks of memory. Shapes and offsets are fixed when a
// step is made. run() allocates nothing and throws nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/memory.h"
#include "runtime/view.h"

namespace intact {

// Bytes behind every tensor of the arena that kernels may read, but never write. Inputs and constants belong
// to the caller and have none: Program::add refuses a step that reads beyond their end.
constexpr size_t kSlack = 64;

// A view that run() touches. A step that reads it may touch `slack` bytes behind it, too.
struct Access {
  View view;
  bool writes;
  size_t slack;
};

// One of several inner loops of a step, and its products in a run, those of padding included.
struct Loop {
  std::string name;
  int64_t products;
};

class Step {
 public:
  virtual ~Step() = default;
  // The number of independent pieces of work, which the executor distributes over threads in ranges. A step
  // with one item wakes no thread. Pieces below about 5 microseconds cost more than they save.
  virtual size_t items() const = 0;
  // The relative cost of an item, in a unit that the step chooses. Only balance.h calls it, never a run.
  virtual int64_t work([[maybe_unused]] size_t item) const { return 1; }
  // Bytes of scratch that run() needs per thread, aligned to 64.
  virtual size_t scratch() const { return 0; }
  // The name in profiles: that of the kernel, if there is one.
  virtual std::string name() const { return "native"; }
  // The inner loops, for profiles; empty if there is only one.
  virtual std::vector<Loop> loops() const { return {}; }
  // Weights that earlier steps may prefetch for this one; empty where that does not pay.
  virtual Weights weights() const { return {}; }
  virtual void run(const Memory& memory, size_t begin, size_t end, uint8_t* scratch) const noexcept = 0;

  // Calls visit(const Access&) for every view that run() touches.
  template <class Visit>
  void each_access(const Visit& visit) const {
    for (size_t at = 0; at < accesses_.size();) visit(read_access(at));
  }

 protected:
  // The constructor of a step declares every view that run() touches. Program::add checks that they lie
  // inside their blocks, with the slack and the halo of what is read. A checked run finds accesses that are
  // not declared (checked.h).
  void reads(const View& view, size_t slack = 0) { declare(view, false, slack); }
  void writes(View view) {
    view.halo = {};
    writes_with_halo(view);
  }
  void writes_with_halo(const View& view) { declare(view, true, 0); }

 private:
  void declare(const View& view, bool writes, size_t slack);
  // Moves `at` on to the next one.
  Access read_access(size_t& at) const;

  // Accesses one behind the other, their numbers in as few bytes as they take: a third of the memory of a
  // program would be views otherwise, and new memory is what binding a plan costs most.
  std::vector<uint8_t> accesses_;
};

}  // namespace intact
