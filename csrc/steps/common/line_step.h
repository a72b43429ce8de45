// Steps along one axis: folds, running sums, arg max, weighted sums.
#pragma once

#include "base/tuning.h"
#include "steps/common/chunks.h"
#include "steps/common/lines.h"

namespace intact {

// A step of one input and one output that works line by line: chunks of lines, walked by where each begins.
class LineStep : public Chunks<2> {
 public:
  LineStep(const View& x, const View& y, int axis);

  void run(const Memory& memory, size_t begin, size_t end, uint8_t* scratch) const noexcept final;

 protected:
  // Works on n lines beside each other, kLines at most; x and y are where the first one begins.
  virtual void run_lines(const uint8_t* x, uint8_t* y, size_t n, uint8_t* scratch) const noexcept = 0;

  View x_, y_;
  Line from_, to_;
};

}  // namespace intact
