#include "steps/common/line_step.h"

#include "base/tuning.h"

namespace intact {

LineStep::LineStep(const View& x, const View& y, int axis)
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

void LineStep::run(const Memory& memory, size_t begin, size_t end, uint8_t* scratch) const noexcept {
  each(begin, end, [&](const auto& at, size_t n) {
    run_lines(x_.at<uint8_t>(memory) + at[0], y_.at<uint8_t>(memory) + at[1], n, scratch);
  });
}

}  // namespace intact
