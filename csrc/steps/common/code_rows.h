// Element-wise steps on codes. Views may broadcast (stride 0) and lie in any order of axes, and y may be one
// of the inputs.
#pragma once

#include <array>
#include <cstring>

#include "base/tuning.h"
#include "kernels/pointwise/pointwise.h"
#include "steps/common/walk.h"

namespace intact {

// Rows of an input as kernels read them: dense. Strided rows are gathered in scratch.
template <size_t kViews>
struct CodeReader {
  bool dense;
  int64_t stride;

  CodeReader(const Walk<kViews>& walk, size_t view)
      : dense(walk.dense(view)), stride(walk.strides[walk.rank - 1][view]) {}

  const uint8_t* row(const uint8_t* x, size_t from, size_t n, uint8_t* scratch) const {
    x += static_cast<int64_t>(from) * stride;
    if (dense) return x;
    if (stride == 0) return static_cast<const uint8_t*>(std::memset(scratch, *x, n));
    for (size_t i = 0; i < n; ++i) scratch[i] = x[static_cast<int64_t>(i) * stride];
    return scratch;
  }
};

// y = f(the views before it), in chunks of dense bytes.
template <size_t kViews>
class CodeRows : public Step {
 public:
  explicit CodeRows(const std::array<View, kViews>& views)
      : views_(views),
        walk_(views),
        rows_(walk_.outer(walk_.rank - 1), walk_.size(walk_.rank - 1), tuning::images::kCodes) {
    for (const View& v : views) demand(v.type == Type::u8, "codes are bytes");
    for (size_t v = 0; v + 1 < kViews; ++v) reads(views[v]);
    writes(views.back());
  }

  size_t items() const override { return rows_.items(); }
  size_t scratch() const override { return kViews * tuning::images::kCodes; }

 protected:
  // Calls body(dense inputs, n, dense y).
  template <class Body>
  void each(const Memory& memory, size_t begin, size_t end, uint8_t* scratch, const Body& body) const {
    std::array<const uint8_t*, kViews - 1> inputs;
    Cursor<kViews> cursor(walk_, walk_.rank - 1, begin * rows_.each / std::max<size_t>(1, rows_.chunks));
    const CodeReader<kViews> target(walk_, kViews - 1);
    uint8_t* const spare = scratch + (kViews - 1) * tuning::images::kCodes;
    bool started = false;
    rows_.visit(begin, end, [&](size_t, size_t from, size_t n) {
      if (started && from == 0) cursor.next();
      started = true;
      for (size_t v = 0; v + 1 < kViews; ++v) {
        const uint8_t* x = views_[v].template at<uint8_t>(memory) + cursor.offset(v);
        inputs[v] = CodeReader<kViews>(walk_, v).row(x, from, n, scratch + v * tuning::images::kCodes);
      }
      uint8_t* y = views_.back().template at<uint8_t>(memory) + cursor.offset(kViews - 1) +
                   static_cast<int64_t>(from) * target.stride;
      body(inputs, n, target.dense ? y : spare);
      for (size_t i = 0; !target.dense && i < n; ++i) y[static_cast<int64_t>(i) * target.stride] = spare[i];
    });
  }

  std::array<View, kViews> views_;

 private:
  Walk<kViews> walk_;
  Rows rows_;
};

inline void demand_sound(Operand from) {
  demand(-kMostZero < from.zero && from.zero < kMostZero, "a zero point is out of range");
}

}  // namespace intact
