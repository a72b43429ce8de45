// Blocks of short rows turned into columns, as FloatOps' ..._columns take them, and back: element k of row i
// of a block lies at block[k * rows + i].
#pragma once

#include "kernels/transpose/transpose.h"
#include "steps/real_rows.h"

namespace intact {

// What both directions share: how n elements `step` apart of rows `row` apart lie in memory.
struct ColumnLayout {
  size_t n;
  int64_t step, row;
  int64_t unit;

  ColumnLayout(const View& v, size_t n_, int64_t step_, int64_t row_)
      : n(n_), step(step_), row(row_), unit(static_cast<int64_t>(bytes_of(v.type))) {}
  // Rows, not elements, are neighbours: columns already.
  bool columns() const { return row == unit; }
  // Elements are neighbours, and no two rows are one.
  bool rows() const { return step == unit && !columns() && row != 0; }
};

class ColumnReader {
 public:
  ColumnReader(const FloatOps& ops, const TransposeOps& turn, const RealIn& x, size_t n, int64_t step,
               int64_t row)
      : turn_(turn),
        layout_(x.view, n, step, row),
        is_bytes_(x.view.type == Type::u8),
        dense_(ops, x, layout_.unit),
        column_(ops, x, row) {}

  bool columns() const { return layout_.columns(); }

  // The block of `rows` rows from x on. `spare` holds a byte for each element.
  void read(const uint8_t* x, size_t rows, float* block, uint8_t* spare) const {
    const auto pitch = static_cast<ptrdiff_t>(rows);
    if (!layout_.rows()) {
      for (size_t k = 0; k < layout_.n; ++k) {
        column_.copy(x + static_cast<int64_t>(k) * layout_.step, rows, block + k * rows, spare);
      }
    } else if (is_bytes_) {
      turn_.bytes(x, layout_.row, rows, layout_.n, spare, pitch);
      dense_.copy(spare, rows * layout_.n, block, spare);
    } else {
      turn_.words(x, layout_.row, rows, layout_.n, reinterpret_cast<uint8_t*>(block), 4 * pitch);
    }
  }

 private:
  const TransposeOps& turn_;
  ColumnLayout layout_;
  bool is_bytes_;
  RowReader dense_, column_;
};

class ColumnWriter {
 public:
  ColumnWriter(const FloatOps& ops, const TransposeOps& turn, const RealOut& y, size_t n, int64_t step,
               int64_t row)
      : turn_(turn), ops_(ops), layout_(y.view, n, step, row), y_(y), is_bytes_(y.view.type == Type::u8) {}

  bool columns() const { return layout_.columns(); }

  // Where y's rows begin. `spare` holds a byte for each element.
  void write(const float* block, size_t rows, uint8_t* y, uint8_t* spare) const {
    const auto* from = reinterpret_cast<const uint8_t*>(block);
    if (is_bytes_) {
      ops_.quantize(block, rows * layout_.n, 1.0f, y_.scale, y_.grid, spare);
      from = spare;
    }
    const auto pitch = layout_.unit * static_cast<int64_t>(rows);
    if (layout_.rows()) {
      (is_bytes_ ? turn_.bytes : turn_.words)(from, pitch, layout_.n, rows, y, layout_.row);
      return;
    }
    for (size_t k = 0; k < layout_.n; ++k, from += pitch, y += layout_.step) put(from, rows, y);
  }

 private:
  void put(const uint8_t* from, size_t rows, uint8_t* y) const {
    const auto unit = static_cast<size_t>(layout_.unit);
    if (layout_.columns()) {
      std::memcpy(y, from, rows * unit);
    } else {
      for (size_t i = 0; i < rows; ++i, y += layout_.row) std::memcpy(y, from + i * unit, unit);
    }
  }

  const TransposeOps& turn_;
  const FloatOps& ops_;
  ColumnLayout layout_;
  RealOut y_;
  bool is_bytes_;
};

}  // namespace intact
