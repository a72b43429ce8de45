// Largest magnitude, and smallest and largest value, of a row or of each column; see numerics.absmax and
// numerics.minmax, which are normative. A NaN anywhere makes the result a NaN. Dense, n >= 0, no
// alignment needed. The sign of a zero result is not defined; callers add +0.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/cpu.h"

namespace intact {

struct MinMax {
  float min, max;
};

struct ReduceOps {
  static constexpr const char* kFamily = "reduce";
  float (*absmax)(const float* x, size_t n);   // 0 for n == 0
  MinMax (*minmax)(const float* x, size_t n);  // {inf, -inf} for n == 0
  // Fold x[i] into the i-th of n running results.
  void (*absmax_each)(const float* x, size_t n, float* amax);
  void (*minmax_each)(const float* x, size_t n, float* min, float* max);
};

#define INTACT_KERNEL(name, needs) extern const ReduceOps name;
#include "kernels/reduce/kernels.inc"
#undef INTACT_KERNEL

}  // namespace intact
