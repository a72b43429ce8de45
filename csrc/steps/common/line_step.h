// Steps along one axis: folds, running sums, arg max, weighted sums.
#pragma once

#include "base/tuning.h"
#include "steps/common/chunks.h"
#include "steps/common/lines.h"

namespace intact {

// A step of one input and one output that works line by line: chunks of lines, walked by where each begins.
class LineStep : public Chunks<2> {
 public:
  LineStep(const View& x, const View& y, int axis)
      : Chunks({beginnings(x, axis), beginnings(y, axis)}, tuning::indexing::kLines, false),
        x_(x),
        y_(y),
        from_(line_of(x, axis)),
        to_(line_of(y, axis)) {
    elements_of(x);
    elements_of(y);
    reads(x);
    writes(y);
  }

 protected:
  View x_, y_;
  Line from_, to_;
};

}  // namespace intact
