// y[i] = clamp(rne(x[i] / scale), low, high) * scale, see numerics.fake_quantize, which is normative.
// A true float division, ties to even; +0 for every result that rounds to zero; infinities saturate; a
// NaN stays a NaN. x and y are dense, n >= 0, no alignment needed; y may be x, no other overlap.
// Ordinary stores: bypassing the caches was measured slower at every size from 1 to 128 MB.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/cpu.h"
#include "base/grid.h"

namespace intact {

struct FakeQuantizeOps {
  static constexpr const char* kFamily = "fake_quantize";
  void (*run)(const float* x, size_t n, const Grid& grid, float* y);
};

#define INTACT_KERNEL(name, needs) extern const FakeQuantizeOps name;
#include "kernels/fake_quantize/kernels.inc"
#undef INTACT_KERNEL

}  // namespace intact
