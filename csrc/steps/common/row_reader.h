// Rows as kernels read them: dense float32. Strided rows and rows of codes are copied.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/float_steps/float_steps.h"
#include "steps/common/real_views.h"
#include "steps/common/row_buffer.h"

namespace intact {

class RowReader {
 public:
  RowReader(const FloatOps& ops, const RealIn& x, int64_t stride)
      : ops_(ops), is_bytes_(x.view.type == Type::u8), zero_(x.zero), scale_(x.scale), stride_(stride) {}

  int64_t stride() const { return stride_; }
  bool has_dense_bytes() const { return is_bytes_ && stride_ == 1; }
  int32_t zero() const { return zero_; }
  float scale() const { return scale_; }

  // The row itself if it is dense float32, otherwise a copy.
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

}  // namespace intact
