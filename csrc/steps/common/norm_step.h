// Steps that need whole rows of floats, along the last axis of their views: softmax and layer normalization.
#pragma once

#include <algorithm>
#include <optional>

#include "base/tuning.h"
#include "kernels/registry.h"
#include "steps/common/column_blocks.h"
#include "steps/common/origin.h"
#include "steps/common/row_reader.h"
#include "steps/common/row_writer.h"
#include "steps/common/walk.h"

namespace intact {

inline View without_last(View v) {
  demand(v.rank >= 1 && v.rank <= kMaxRank, "rows need an axis to lie along");
  --v.rank;
  return v;
}

inline size_t length_of(const View& v) {
  demand(v.rank >= 1 && v.rank <= kMaxRank && v.sizes[v.rank - 1] >= 0, "rows need an axis to lie along");
  return static_cast<size_t>(v.sizes[v.rank - 1]);
}

inline int64_t last_stride(const View& v) { return v.strides[v.rank - 1]; }

struct NormViews {
  RealIn x;
  std::optional<RealIn> other;
  RealOut y;
  std::optional<RealOut> codes;
  std::optional<View> factors;
};

// Computes y, and optionally codes of y * factors, from x and an optional second input. It works row by row
// or, for short rows, on blocks of rows as columns.
class NormStep : public Step {
 public:
  NormStep(const FloatOps& ops, const TransposeOps& turn, const NormViews& v)
      : NormStep(ops, turn, v, v.other.value_or(v.x), v.codes.value_or(v.y)) {}

  size_t items() const override { return in_columns_ ? blocks_.items() : (rows_ + each_ - 1) / each_; }
  std::string name() const override { return name_of(&ops_); }
  size_t scratch() const override {
    return in_columns_ ? 2 * block_bytes() + align64(n_ * blocks_.chunk) : 3 * row_scratch(n_);
  }

 protected:
  // row(x, other) changes a row of x in place, and returns the factor by which the result is still to be
  // multiplied. columns(x, rows, other) changes a block of x, and leaves no factor. `other`: the second
  // input, or nullptr.
  template <class Row, class Columns>
  void each(const Memory& memory, size_t begin, size_t end, uint8_t* scratch, const Row& row,
            const Columns& columns) const {
    in_columns_ ? by_columns(memory, begin, end, scratch, columns)
                : by_rows(memory, begin, end, scratch, row);
  }

  const FloatOps& ops_;
  size_t n_;

 private:
  NormStep(const FloatOps& ops, const TransposeOps& turn, const NormViews& v, const RealIn& other,
           const RealOut& codes)
      : ops_(ops),
        n_(length_of(v.x.view)),
        outer_({without_last(v.x.view), without_last(other.view), without_last(codes.view),
                without_last(v.y.view)}),
        rows_(n_ == 0 ? 0 : outer_.outer(outer_.rank)),
        each_(std::max<size_t>(1, tuning::float_steps::kNormPiece / std::max<size_t>(1, n_))),
        x_(v.x.view),
        other_(other.view),
        codes_(codes.view),
        y_(v.y.view),
        has_other_(v.other.has_value()),
        has_codes_(v.codes.has_value()),
        x_reader_(ops, v.x, last_stride(v.x.view)),
        other_reader_(ops, other, last_stride(other.view)),
        codes_writer_(ops, codes, last_stride(codes.view)),
        writer_(ops, v.y, last_stride(v.y.view)),
        x_columns_(ops, turn, v.x, last_stride(v.x.view), next_row(0)),
        other_columns_(ops, turn, other, last_stride(other.view), next_row(1)),
        codes_columns_(ops, turn, codes, last_stride(codes.view), next_row(2)),
        columns_(ops, turn, v.y, last_stride(v.y.view), next_row(3)) {
    using namespace tuning::float_steps;
    demand_real(v.x);
    demand_real(other);
    demand_real(v.y);
    demand_real(codes);
    const View& y = v.y.view;
    demand(!has_codes_ || (codes.view.type == Type::u8 && y.type == Type::f32),
           "codes beside floats are bytes");
    for (const View* view : {&codes.view, &v.x.view, &other.view}) demand_same_sizes(*view, y);
    demand(elements_of(y) < static_cast<size_t>(kMostElements), "rows are too long");
    const bool is_short = n_ <= kShortNorm || (n_ <= kShortWithin && n_ % kRegister != 0);
    const bool fits = is_short || (n_ <= kMostColumns && x_columns_.columns());
    in_columns_ = rows_ > 0 && fits && outer_.size(outer_.rank - 1) >= kFewestRows;
    if (in_columns_) {
      const size_t most = std::clamp(kNormPiece / n_ / 16 * 16, kLeastRows, kMostRows);
      blocks_ = Rows(outer_.outer(outer_.rank - 1), outer_.size(outer_.rank - 1), most);
    }
    reads(v.x.view);
    if (has_other_) reads(other.view);
    if (has_codes_) writes(codes.view);
    writes(y);
    if (!v.factors) return;
    demand(has_codes_, "factors are for codes");
    demand_vector(*v.factors, Type::f32, n_, "one float32 factor for each element of a row");
    reads(*v.factors);
    factors_.emplace(*v.factors);
  }

  int64_t next_row(size_t view) const { return outer_.strides[outer_.rank - 1][view]; }
  size_t block_bytes() const { return align64(n_ * blocks_.chunk * sizeof(float)); }

  template <class Row>
  void by_rows(const Memory& memory, size_t begin, size_t end, uint8_t* scratch, const Row& body) const {
    const RowBuffer spare(scratch, n_, 0), second(scratch, n_, 1), out(scratch, n_, 2);
    const size_t last = std::min(end * each_, rows_);
    Cursor<4> cursor(outer_, outer_.rank, begin * each_);
    for (size_t row = begin * each_; row < last; ++row, cursor.next()) {
      uint8_t* const y = y_.at<uint8_t>(memory) + cursor.offset(3);
      float* const values = writer_.target(y, n_, out);
      x_reader_.copy(x_.at<uint8_t>(memory) + cursor.offset(0), n_, values, spare.bytes());
      const float* other = nullptr;
      if (has_other_) other = other_reader_.row(other_.at<uint8_t>(memory) + cursor.offset(1), n_, second);
      const float factor = body(values, other);
      if (has_codes_) write_codes(memory, values, factor, cursor.offset(2), factors_ ? second : out);
      writer_.finish(values, factor, y, n_, out);
    }
  }

  template <class Columns>
  void by_columns(const Memory& memory, size_t begin, size_t end, uint8_t* scratch,
                  const Columns& body) const {
    auto* const values = reinterpret_cast<float*>(scratch);
    auto* const second = reinterpret_cast<float*>(scratch + block_bytes());
    uint8_t* const spare = scratch + 2 * block_bytes();
    visit_rows(outer_, outer_.rank - 1, blocks_, begin, end, [&](const auto& at, size_t rows) {
      x_columns_.read(x_.at<uint8_t>(memory) + at[0], n_, rows, values, spare);
      if (has_other_) other_columns_.read(other_.at<uint8_t>(memory) + at[1], n_, rows, second, spare);
      body(values, rows, has_other_ ? second : nullptr);
      columns_.write(values, n_, rows, y_.at<uint8_t>(memory) + at[3], spare);
      if (!has_codes_) return;
      for (size_t k = 0; factors_ && k < n_; ++k) {
        multiply(values + k * rows, 1, factors_->at<float>(memory) + k, 0, rows, values + k * rows);
      }
      codes_columns_.write(values, n_, rows, codes_.at<uint8_t>(memory) + at[2], spare);
    });
  }

  void multiply(const float* a, size_t a_step, const float* b, size_t b_step, size_t n, float* y) const {
    ops_.binary[static_cast<size_t>(BinaryKind::mul)](a, a_step, b, b_step, n, y);
  }

  // `spare` must not hold `values`.
  void write_codes(const Memory& memory, float* values, float factor, ptrdiff_t at,
                   const RowBuffer& spare) const {
    if (factors_) {
      multiply(values, 1, factors_->at<float>(memory), 1, n_, spare.floats());
      values = spare.floats();
    }
    codes_writer_.finish(values, factor, codes_.at<uint8_t>(memory) + at, n_, spare);
  }

  Walk<4> outer_;
  size_t rows_, each_;
  Origin x_, other_, codes_, y_;
  bool has_other_, has_codes_;
  std::optional<Origin> factors_;
  RowReader x_reader_, other_reader_;
  RowWriter codes_writer_, writer_;
  ColumnReader x_columns_, other_columns_;
  ColumnWriter codes_columns_, columns_;
  bool in_columns_ = false;
  Rows blocks_;
};

}  // namespace intact
