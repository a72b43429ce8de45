// Blocks of short rows as columns, which the ..._columns functions of FloatOps take: element k of row i of a
// block is block[k * rows + i].
#pragma once

#include <algorithm>

#include "kernels/transpose/transpose.h"
#include "steps/common/row_reader.h"

namespace intact {

// The memory of a block: elements are `step` bytes apart, rows `row` bytes.
struct ColumnLayout {
  int64_t step, row;
  int64_t unit;

  ColumnLayout(const View& v, int64_t step_, int64_t row_)
      : step(step_), row(row_), unit(static_cast<int64_t>(bytes_of(v.type))) {}
  // Whether rows are neighbours in memory: the block is in columns already.
  bool columns() const { return row == unit; }
  // Whether elements are neighbours in memory, and rows are distinct.
  bool rows() const { return step == unit && !columns() && row != 0; }
};

class ColumnReader {
 public:
  ColumnReader(const FloatOps& ops, const TransposeOps& turn, const RealIn& x, int64_t step, int64_t row)
      : turn_(turn),
        layout_(x.view, step, row),
        is_bytes_(x.view.type == Type::u8),
        dense_(ops, x, layout_.unit),
        along_(ops, x, step),
        column_(ops, x, row) {}

  bool columns() const { return layout_.columns(); }

  // The block of n elements of `rows` rows from x on. `spare` holds a byte for each element.
  void read(const uint8_t* x, size_t n, size_t rows, float* block, uint8_t* spare) const {
    const auto pitch = static_cast<ptrdiff_t>(rows);
    if (layout_.step == 0) {
      column_.copy(x, rows, block, spare);
      repeat(block, rows, n * rows);
    } else if (layout_.row == 0) {
      along_.copy(x, n, block, spare);
      for (size_t k = n; k-- > 0;) std::fill_n(block + k * rows, rows, block[k]);
    } else if (!layout_.rows()) {
      for (size_t k = 0; k < n; ++k) {
        column_.copy(x + static_cast<int64_t>(k) * layout_.step, rows, block + k * rows, spare);
      }
    } else if (is_bytes_) {
      turn_.bytes(x, layout_.row, rows, n, spare, pitch);
      dense_.copy(spare, rows * n, block, spare);
    } else {
      turn_.words(x, layout_.row, rows, n, reinterpret_cast<uint8_t*>(block), 4 * pitch);
    }
  }

  // Repeats the first n floats until there are `all`.
  static void repeat(float* floats, size_t n, size_t all) {
    for (; n < all; n *= 2) std::memcpy(floats + n, floats, std::min(n, all - n) * sizeof *floats);
  }

 private:
  const TransposeOps& turn_;
  ColumnLayout layout_;
  bool is_bytes_;
  RowReader dense_, along_, column_;
};

class ColumnWriter {
 public:
  ColumnWriter(const FloatOps& ops, const TransposeOps& turn, const RealOut& y, int64_t step, int64_t row)
      : turn_(turn), ops_(ops), layout_(y.view, step, row), y_(y), is_bytes_(y.view.type == Type::u8) {}

  // y is where the first row begins. `spare` holds a byte for each element.
  void write(const float* block, size_t n, size_t rows, uint8_t* y, uint8_t* spare) const {
    const auto* from = reinterpret_cast<const uint8_t*>(block);
    if (is_bytes_) {
      ops_.quantize(block, rows * n, 1.0f, y_.scale, y_.grid, spare);
      from = spare;
    }
    const auto pitch = layout_.unit * static_cast<int64_t>(rows);
    if (layout_.rows()) {
      (is_bytes_ ? turn_.bytes : turn_.words)(from, pitch, n, rows, y, layout_.row);
      return;
    }
    for (size_t k = 0; k < n; ++k, from += pitch, y += layout_.step) put(from, rows, y);
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
