// What the executor runs: steps over views of a few blocks of memory. Everything about a step is fixed when
// it is made, shapes and addresses included; run() allocates nothing and throws nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/memory.h"
#include "runtime/view.h"

namespace intact {

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
