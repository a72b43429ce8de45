// Between float32 and the other input dtypes: IEEE half, bfloat16 and double. Widening is exact;
// narrowing rounds to nearest even, keeps denormals, and overflows to infinity. A NaN stays a NaN.
// Dense, n >= 0, no alignment needed, no overlap.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/cpu.h"

namespace intact {

struct ConvertOps {
  static constexpr const char* kFamily = "convert";
  void (*from_f16)(const uint16_t* x, size_t n, float* y);
  void (*from_bf16)(const uint16_t* x, size_t n, float* y);
  void (*from_f64)(const double* x, size_t n, float* y);
  void (*to_f16)(const float* x, size_t n, uint16_t* y);
  void (*to_bf16)(const float* x, size_t n, uint16_t* y);
  void (*to_f64)(const float* x, size_t n, double* y);
};

#define INTACT_KERNEL(name, needs) extern const ConvertOps name;
#include "kernels/convert/kernels.inc"
#undef INTACT_KERNEL

}  // namespace intact
