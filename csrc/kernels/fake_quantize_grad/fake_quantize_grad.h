// y[i] = low <= x[i] <= high ? grad[i] : 0, see numerics.fake_quantize_grad, which is normative.
// 0 where x is NaN; the bits of grad pass unchanged. grid.scale is not read. Dense, n >= 0, no
// alignment needed; y may be grad or x, no other overlap.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/cpu.h"
#include "base/grid.h"

namespace intact {

struct FakeQuantizeGradOps {
  static constexpr const char* kFamily = "fake_quantize_grad";
  void (*run)(const float* grad, const float* x, size_t n, const Grid& grid, float* y);
};

#define INTACT_KERNEL(name, needs) extern const FakeQuantizeGradOps name;
#include "kernels/fake_quantize_grad/kernels.inc"
#undef INTACT_KERNEL

}  // namespace intact
