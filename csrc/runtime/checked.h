// Runs that believe no step: what each one reads, writes and depends on is held against what it declared.
//
//   before   every byte that the step may read, halo included, is one that its view says it can hold
//   during   the step runs twice, with all memory that it did not declare holding 0 the first time and 255
//            the second: other tensors, slack, scratch. AddressSanitizer, where there is one, is told that
//            this memory is not there (but for the slack that the step asked for)
//   behind   nothing but what it declared to write has changed, and both runs gave the same
//
// A step then costs what all writable memory costs to copy a few times: for tests.
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

  // Runs a step of the program by `run`, on blocks as in Memory. Throws std::logic_error for one that breaks
  // its word.
  void run(size_t step, uint8_t* const* blocks, const std::function<void()>& run);

 private:
  // A block that steps may write, for the step that is running.
  struct Region {
    uint8_t* data;
    std::vector<uint8_t> before;  // what lay there
    std::vector<uint8_t> marks;   // of each byte: what the step declared
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
