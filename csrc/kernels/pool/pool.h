// Pools of bytes over the taps of one window, for a run of neighbouring channels (N27). `offsets` are bytes
// from x to each tap.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/byte_grid.h"
#include "base/cpu.h"
#include "base/inline.h"

namespace intact {

constexpr size_t kMostPoolTaps = size_t{1} << 22;  // sums of bytes fit int32

struct PoolWindow {
  const uint8_t* x;
  const ptrdiff_t* offsets;
  size_t taps;  // > 0; a mean may have none
  size_t channels;
};

// y = to_byte(fl32(sum(x) - zero * taps) * multiplier / count / scale). The divisions are left out where
// `multiplier` alone gives the same bytes. zero * taps fits int32.
struct PoolMean {
  int32_t zero;
  float multiplier;
  ByteGrid grid;
  bool divides = false;
  float count = 1, scale = 1;

  INTACT_INLINE float steps(float sum) const {
    return divides ? sum * multiplier / count / scale : sum * multiplier;
  }
};

// The mean of `count` taps in steps of y, as one product if that gives the bytes of the divisions.
PoolMean pool_mean(float x_scale, int64_t count, float y_scale, int32_t zero, const ByteGrid& grid);

struct PoolOps {
  static constexpr const char* kFamily = "pool";
  // `pixels` windows, x_pixel and y_pixel bytes apart.
  void (*max)(const PoolWindow& window, size_t pixels, ptrdiff_t x_pixel, uint8_t* y, ptrdiff_t y_pixel);
  void (*mean)(const PoolWindow& window, const PoolMean& mean, uint8_t* y);
};

#define INTACT_KERNEL(name, needs) extern const PoolOps name;
#include "kernels/pool/kernels.inc"
#undef INTACT_KERNEL

}  // namespace intact
