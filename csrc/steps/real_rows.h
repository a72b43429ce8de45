// Rows of floats as the kernels want them: float32, neighbours. What lies otherwise, or holds codes, goes
// through a buffer in scratch; codes are dequantized and quantized on the way (N12, N11).
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/float_steps/float_steps.h"
#include "steps/views.h"

namespace intact {

// A tensor of float32; or of bytes, which mean (byte - zero) * scale.
struct RealIn {
  View view;
  int32_t zero = 0;
  float scale = 1.0f;
};

struct RealOut {
  View view;
  float scale = 1.0f;
  ByteGrid grid{0, 0, 255};
};

inline void demand_real(const View& v, float scale, const char* what) {
  demand(v.type == Type::f32 || v.type == Type::u8, what);
  demand(v.type == Type::f32 || (std::isfinite(scale) && scale > 0), "a scale is not positive");
}
inline void demand_real(const RealIn& x) {
  demand_real(x.view, x.scale, "floats are float32 or bytes");
  demand(-kMostZero < x.zero && x.zero < kMostZero, "a zero point is out of range");
}
inline void demand_real(const RealOut& y) {
  demand_real(y.view, y.scale, "floats are float32 or bytes");
  demand(is_sound(y.grid), "the output's grid is not within bytes");
}

// Scratch for rows of n floats: the floats, and their bytes where those are not neighbours.
constexpr size_t row_scratch(size_t n) { return (n * 5 + 127) / 64 * 64; }

class RowBuffer {
 public:
  RowBuffer(uint8_t* scratch, size_t n, size_t index) : memory_(scratch + index * row_scratch(n)), n_(n) {}
  float* floats() const { return reinterpret_cast<float*>(memory_); }
  uint8_t* bytes() const { return memory_ + n_ * sizeof(float); }

 private:
  uint8_t* memory_;
  size_t n_;
};

class RowReader {
 public:
  RowReader(const FloatOps& ops, const RealIn& x, int64_t stride)
      : ops_(ops), is_bytes_(x.view.type == Type::u8), zero_(x.zero), scale_(x.scale), stride_(stride) {}

  int64_t stride() const { return stride_; }
  bool has_dense_bytes() const { return is_bytes_ && stride_ == 1; }
  int32_t zero() const { return zero_; }
  float scale() const { return scale_; }

  // The row itself where it is dense float32, else a copy.
  const float* row(const uint8_t* x, size_t n, const RowBuffer& buffer) const {
    if (!is_bytes_ && dense(n)) return reinterpret_cast<const float*>(x);
    copy(x, n, buffer.floats(), buffer.bytes());
    return buffer.floats();
  }

  void copy(const uint8_t* x, size_t n, float* to, uint8_t* spare) const {
    if (is_bytes_) {
      for (size_t i = 0; !dense(n) && i < n; ++i) spare[i] = x[static_cast<int64_t>(i) * stride_];
      ops_.dequantize(dense(n) ? x : spare, n, zero_, scale_, to);
    } else if (!dense(n)) {
      for (size_t i = 0; i < n; ++i) std::memcpy(to + i, x + static_cast<int64_t>(i) * stride_, sizeof *to);
    } else if (reinterpret_cast<const float*>(x) != to) {
      std::memcpy(to, x, n * sizeof *to);
    }
  }

 private:
  bool dense(size_t n) const { return n < 2 || stride_ == (is_bytes_ ? 1 : 4); }

  const FloatOps& ops_;
  bool is_bytes_;
  int32_t zero_;
  float scale_;
  int64_t stride_;
};

class RowWriter {
 public:
  RowWriter(const FloatOps& ops, const RealOut& y, int64_t stride)
      : ops_(ops), is_bytes_(y.view.type == Type::u8), scale_(y.scale), grid_(y.grid), stride_(stride) {}

  int64_t stride() const { return stride_; }
  bool has_bytes() const { return is_bytes_; }
  float scale() const { return scale_; }
  const ByteGrid& grid() const { return grid_; }

  // Where to put the floats: finish() takes them from there.
  float* target(uint8_t* y, size_t n, const RowBuffer& buffer) const {
    return !is_bytes_ && dense(n) ? reinterpret_cast<float*>(y) : buffer.floats();
  }

  // y = the bytes that make(to) puts side by side.
  template <class Make>
  void bytes(uint8_t* y, size_t n, const RowBuffer& buffer, const Make& make) const {
    uint8_t* const to = dense(n) ? y : buffer.bytes();
    make(to);
    for (size_t i = 0; !dense(n) && i < n; ++i) y[static_cast<int64_t>(i) * stride_] = to[i];
  }

  // y = from * factor, from being target().
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
