// run: y[i] = low <= x[i] <= high ? grad[i] : 0, see numerics.fake_quantize_grad, which is normative.
// 0 where x is NaN; the bits of grad pass unchanged. grid.scale is not read. Dense, n >= 0, no
// alignment needed; y may be grad or x, no other overlap.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/cpu.h"
#include "base/grid.h"

namespace intact {

// Sums for the gradients of a learned range's ends, see numerics.learned_range_grad: of
// grad * (y - x) between the ends, of grad * y and of grad beyond them.
struct RangeSums {
  float between, beyond, shift;
};

struct FakeQuantizeGradOps {
  static constexpr const char* kFamily = "fake_quantize_grad";
  void (*run)(const float* grad, const float* x, size_t n, const Grid& grid, float* y);
  // to_x[i] = low < x[i] < high ? grad[i] : 0 of at most kPiece elements of one granule, and its sums. `y` is
  // the fake-quantized x. to_x may be grad or x.
  RangeSums (*learn)(const float* grad, const float* x, const float* y, size_t n, float low, float high,
                     float* to_x);
};

#define INTACT_KERNEL(name, needs) extern const FakeQuantizeGradOps name;
#include "kernels/fake_quantize_grad/kernels.inc"
#undef INTACT_KERNEL

}  // namespace intact
