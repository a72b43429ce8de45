// Checked runs compare what each step reads, writes and depends on with what it declared.
//
//   before   every byte that the step may read, halo included, is within the bounds of its view
//   during   the step runs twice. Memory that it did not declare (other tensors, slack, scratch) holds 0 in
//            the first run and 255 in the second. AddressSanitizer, if present, treats it as unmapped, but
//            for slack that the step declared
//   behind   only memory that the step declared to write has changed, and both runs gave the same bytes
//
// Each step then costs a few copies of all writable memory, so this is for tests.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "runtime/program.h"

namespace intact {

class Checker {
 public:
  // The scratch of all threads, `scratch_bytes` of it.
  Checker(const Program& program, uint8_t* scratch, size_t scratch_bytes)
      : program_(program), scratch_(scratch), scratch_bytes_(scratch_bytes) {}

  // Runs a step of the program by `run`, on blocks as in Memory. Throws std::logic_error where the step
  // touches memory that it did not declare.
  void run(size_t step, uint8_t* const* blocks, const std::function<void()>& run);

 private:
  // A block that steps may write, during one step.
  struct Region {
    uint8_t* data;
    std::vector<uint8_t> before;  // its bytes before the step
    std::vector<uint8_t> marks;  // per byte: what the step declared
  };

  Region region_of(uint32_t block) const;
  void mark(const Access& access);
  void check_bytes(const View& view) const;
  void prepare(uint8_t fill);
  void check_untouched(uint8_t fill) const;
  void poison(bool on) const;
  [[noreturn]] void fail(const char* what) const;

  const Program& program_;
  uint8_t* const* blocks_ = nullptr;
  uint8_t* scratch_;
  size_t scratch_bytes_;
  size_t step_ = 0;
  std::vector<Region> regions_;
};

}  // namespace intact
