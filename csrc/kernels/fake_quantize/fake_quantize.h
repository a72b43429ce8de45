// y[i] = clamp(rne(x[i] / scale), low, high) * scale, see numerics.fake_quantize, which is normative.
// A true float division, ties to even; +0 for every result that rounds to zero; infinities saturate; a
// NaN stays a NaN. x and y are dense, n >= 0, no alignment needed; y may be x, no other overlap.
// stream: y is too large for the caches, bypass them where that is possible.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/cpu.h"
#include "base/grid.h"

namespace intact {

struct FakeQuantizeOps {
  void (*run)(const float* x, size_t n, const Grid& grid, bool stream, float* y);
};

#define INTACT_KERNEL(name, needs) extern const FakeQuantizeOps name;
#include "kernels/fake_quantize/kernels.inc"
#undef INTACT_KERNEL

}  // namespace intact
