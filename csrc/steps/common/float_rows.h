// Element-wise steps in floats. Views may broadcast (stride 0) and lie in any order of axes, and y may be an
// input of the same dtype.
#pragma once

#include <array>
#include <vector>

#include "base/tuning.h"
#include "kernels/registry.h"
#include "steps/common/column_blocks.h"
#include "steps/common/origin.h"
#include "steps/common/row_reader.h"
#include "steps/common/row_writer.h"
#include "steps/common/walk.h"

namespace intact {

// Processes dense rows of floats. If the innermost axis of y is short, or an input is dense along another
// axis (planes of an image that is written pixel by pixel), a row is a block of the two innermost axes.
template <size_t kInputs>
class FloatRows : public Step {
 public:
  FloatRows(const FloatOps& ops, const TransposeOps& turn, const std::array<RealIn, kInputs>& xs,
            const RealOut& y)
      : ops_(ops), y_(y.view), walk_(views_of(xs, y)), writer_(ops, y, inner(kInputs)) {
    demand_real(y);
    for (size_t v = 0; v < kInputs; ++v) {
      demand_real(xs[v]);
      reads(xs[v].view);
    }
    writes(y.view);
    in_blocks_ = pays(xs);
    if (in_blocks_) columns_ = walk_.size(walk_.rank - 1);
    const int axis = walk_.rank - (in_blocks_ ? 2 : 1);
    rows_ = Rows(walk_.outer(axis), walk_.size(axis), tuning::float_steps::kChunk / columns_);
    inputs_.reserve(kInputs);
    for (size_t v = 0; v < kInputs; ++v) {
      const bool dense = !in_blocks_ || is_even(v);
      inputs_.push_back({Origin(xs[v].view), dense, RowReader(ops, xs[v], inner(v)),
                         ColumnReader(ops, turn, xs[v], outer(v), inner(v))});
    }
  }

  size_t items() const override { return rows_.items(); }
  std::string name() const override { return name_of(&ops_); }
  size_t scratch() const override { return (kInputs + 1) * row_scratch(tuning::float_steps::kChunk); }

 protected:
  // Calls body(rows of the inputs, n, y, buffer): the buffer is for rows that cannot be written to y
  // directly.
  template <class Body>
  void each(const Memory& memory, size_t begin, size_t end, uint8_t* scratch, const Body& body) const {
    const RowBuffer out(scratch, tuning::float_steps::kChunk, kInputs);
    visit_rows(walk_, walk_.rank - (in_blocks_ ? 2 : 1), rows_, begin, end, [&](const auto& at, size_t n) {
      std::array<const float*, kInputs> rows;
      for (size_t v = 0; v < kInputs; ++v) {
        const RowBuffer buffer(scratch, tuning::float_steps::kChunk, v);
        rows[v] = row(inputs_[v], inputs_[v].first.template at<uint8_t>(memory) + at[v], n, buffer);
      }
      body(rows, n * columns_, y_.at<uint8_t>(memory) + at[kInputs], out);
    });
  }
  // Whether an input has one element per element of y, not one per row.
  bool moves(size_t input) const { return !inputs_[input].dense || inner(input) != 0; }
  const RowWriter& writer() const { return writer_; }

 private:
  struct Input {
    Origin first;
    bool dense;  // its rows are read as rows, not as blocks
    RowReader row;
    ColumnReader block;
  };

  static std::array<View, kInputs + 1> views_of(const std::array<RealIn, kInputs>& xs, const RealOut& y) {
    std::array<View, kInputs + 1> views;
    for (size_t v = 0; v < kInputs; ++v) views[v] = xs[v].view;
    views[kInputs] = y.view;
    return views;
  }

  int64_t inner(size_t view) const { return walk_.strides[walk_.rank - 1][view]; }
  int64_t outer(size_t view) const { return walk_.rank < 2 ? 0 : walk_.strides[walk_.rank - 2][view]; }
  // Whether the two innermost axes of a view are contiguous.
  bool is_even(size_t view) const {
    return outer(view) == inner(view) * static_cast<int64_t>(walk_.size(walk_.rank - 1));
  }

  bool pays(const std::array<RealIn, kInputs>& xs) const {
    if (walk_.rank < 2 || !walk_.dense(kInputs) || !is_even(kInputs)) return false;
    const size_t columns = walk_.size(walk_.rank - 1);
    if (walk_.size(walk_.rank - 2) < tuning::float_steps::kFewestShort ||
        columns > tuning::float_steps::kMostShort)
      return false;
    if (columns <= tuning::float_steps::kShortRow) return true;
    for (size_t v = 0; v < kInputs; ++v) {
      const auto unit = static_cast<int64_t>(bytes_of(xs[v].view.type));
      if (outer(v) == unit && inner(v) != unit && inner(v) != 0) return true;
    }
    return false;
  }

  const float* row(const Input& input, const uint8_t* x, size_t n, const RowBuffer& buffer) const {
    if (input.dense) return input.row.row(x, input.row.stride() == 0 ? 1 : n * columns_, buffer);
    input.block.read(x, n, columns_, buffer.floats(), buffer.bytes());
    return buffer.floats();
  }

  const FloatOps& ops_;
  Origin y_;
  Walk<kInputs + 1> walk_;
  bool in_blocks_;
  size_t columns_ = 1;  // of a block
  Rows rows_;
  std::vector<Input> inputs_;
  RowWriter writer_;
};

// y = f(x), where f is a function of rows: f(x, n, y).
template <class F>
class FloatMap final : public FloatRows<1> {
 public:
  FloatMap(const FloatOps& ops, const TransposeOps& turn, const RealIn& x, const RealOut& y,
           const F& function)
      : FloatRows(ops, turn, {x}, y), function_(function) {}

  void run(const Memory& memory, size_t begin, size_t end, uint8_t* scratch) const noexcept override {
    each(memory, begin, end, scratch, [&](const auto& rows, size_t n, uint8_t* y, const RowBuffer& out) {
      float* const to = writer().target(y, n, out);
      function_(rows[0], n, to);
      writer().finish(to, 1.0f, y, n, out);
    });
  }

 private:
  F function_;
};

}  // namespace intact
