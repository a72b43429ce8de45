// q[i] = clamp(rne(x[i] / scale) + zero_point, qmin, qmax) and x[i] = (q[i] - zero_point) * scale, codes
// of 8 bits or fewer in one byte each; see numerics.quantize and numerics.dequantize, normative.
// grid.low is qmin - zero_point, so that the zero point is qmin - low. A NaN gives qmin; infinities
// saturate. is_signed: bytes are int8, else uint8. Dense, n >= 0, no alignment needed, no overlap.
// `split`: both bytes of codes of 16 bits less qmin, each to its own place (N62).
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/cpu.h"
#include "base/grid.h"

namespace intact {

struct Codes {
  int32_t qmin;
  bool is_signed;
};

struct QuantizeOps {
  static constexpr const char* kFamily = "quantize";
  void (*quantize)(const float* x, size_t n, const Grid& grid, Codes codes, uint8_t* q);
  void (*dequantize)(const uint8_t* q, size_t n, const Grid& grid, Codes codes, float* y);
  void (*split)(const float* x, size_t n, const Grid& grid, uint8_t* high, uint8_t* low);
};

#define INTACT_KERNEL(name, needs) extern const QuantizeOps name;
#include "kernels/quantize/kernels.inc"
#undef INTACT_KERNEL

}  // namespace intact
