// Writes rows of floats to a view of floats or codes with any stride.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/float_steps/float_steps.h"
#include "steps/common/real_views.h"
#include "steps/common/row_buffer.h"

namespace intact {

class RowWriter {
 public:
  RowWriter(const FloatOps& ops, const RealOut& y, int64_t stride)
      : ops_(ops), is_bytes_(y.view.type == Type::u8), scale_(y.scale), grid_(y.grid), stride_(stride) {}

  int64_t stride() const { return stride_; }
  bool has_bytes() const { return is_bytes_; }
  float scale() const { return scale_; }
  const ByteGrid& grid() const { return grid_; }

  // The memory to which a kernel writes floats; finish() reads them there.
  float* target(uint8_t* y, size_t n, const RowBuffer& buffer) const {
    return !is_bytes_ && dense(n) ? reinterpret_cast<float*>(y) : buffer.floats();
  }

  // Writes the bytes that make(to) stores, dense, to y.
  template <class Make>
  void bytes(uint8_t* y, size_t n, const RowBuffer& buffer, const Make& make) const {
    uint8_t* const to = dense(n) ? y : buffer.bytes();
    make(to);
    for (size_t i = 0; !dense(n) && i < n; ++i) y[static_cast<int64_t>(i) * stride_] = to[i];
  }

  // Writes from * factor to y; `from` is target().
  void finish(float* from, float factor, uint8_t* y, size_t n, const RowBuffer& buffer) const {
    if (!is_bytes_ && factor != 1.0f) multiply(ops_, from, n, factor);
    if (is_bytes_) {
      bytes(y, n, buffer, [&](uint8_t* to) { ops_.quantize(from, n, factor, scale_, grid_, to); });
    } else if (!dense(n)) {
      for (size_t i = 0; i < n; ++i) std::memcpy(y + static_cast<int64_t>(i) * stride_, from + i, 4);
    }
  }

 private:
  static void multiply(const FloatOps& ops, float* x, size_t n, float factor) {
    ops.binary[static_cast<size_t>(BinaryKind::mul)](x, 1, &factor, 0, n, x);
  }
  bool dense(size_t n) const { return n < 2 || stride_ == (is_bytes_ ? 1 : 4); }

  const FloatOps& ops_;
  bool is_bytes_;
  float scale_;
  ByteGrid grid_;
  int64_t stride_;
};

}  // namespace intact
