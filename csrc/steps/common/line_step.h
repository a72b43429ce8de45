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

 protected:
  View x_, y_;
  Line from_, to_;
};

}  // namespace intact
