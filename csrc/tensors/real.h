// Tensors of any real dtype, read and written as float32 in pieces that stay in the first-level cache, so
// that no second copy of a tensor is ever made.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/convert/convert.h"

namespace intact {

enum class Real { f32, f16, bf16, f64 };

// Elements; a scratch buffer holds as many floats. Not for tuning: the sums of learned_range_grad() are added
// piece by piece.
constexpr size_t kPiece = 1024;

struct Source {
  const void* data;
  Real dtype;
  const ConvertOps* convert;

  // Elements [first, first + n) as float32: in place when they are, else in `scratch` (n <= kPiece).
  const float* read(size_t first, size_t n, float* scratch) const {
    switch (dtype) {
      case Real::f32: return static_cast<const float*>(data) + first;
      case Real::f16: convert->from_f16(static_cast<const uint16_t*>(data) + first, n, scratch); break;
      case Real::bf16: convert->from_bf16(static_cast<const uint16_t*>(data) + first, n, scratch); break;
      case Real::f64: convert->from_f64(static_cast<const double*>(data) + first, n, scratch); break;
    }
    return scratch;
  }
};

struct Sink {
  void* data;
  Real dtype;
  const ConvertOps* convert;

  // Returns where to put elements [first, first + n) before `write` is called for the same ones.
  float* place(size_t first, float* scratch) const {
    return dtype == Real::f32 ? static_cast<float*>(data) + first : scratch;
  }
  void write(size_t first, size_t n, const float* y) const {
    switch (dtype) {
      case Real::f32: break;
      case Real::f16: convert->to_f16(y, n, static_cast<uint16_t*>(data) + first); break;
      case Real::bf16: convert->to_bf16(y, n, static_cast<uint16_t*>(data) + first); break;
      case Real::f64: convert->to_f64(y, n, static_cast<double*>(data) + first); break;
    }
  }
};

}  // namespace intact
