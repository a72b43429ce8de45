// Depthwise convolution of bytes whose scale and zero point a run says: numerics.dynamic_conv (N73) of one
// channel in each group, normative. Channels are lanes; every tap of every pixel has an address, so that taps
// beyond the image read a line of zero points.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/cpu.h"

namespace intact {

struct DynamicDepthwise {
  const uint8_t* const* x;  // [pixels][taps]: of channel 0
  size_t pixels, taps, channels;
  const int32_t* weights;  // [taps][channels]: codes less their zeros, 16 bits of two's complement
  const int32_t* starts;  // [channels]: what a sum begins at
  const float* scales;  // [channels]
  const float* bias;  // [channels], or nullptr
  float* const* y;  // [pixels], of channels side by side
};

struct DynamicDepthwiseOps {
  static constexpr const char* kFamily = "dynamic_depthwise";
  // y = fl32(fl32(+0 + fl32(fl32(sum) * scale)) + bias), the sum modulo 2^32.
  void (*run_u8)(const DynamicDepthwise& d);
  void (*run_s8)(const DynamicDepthwise& d);
};

#define INTACT_KERNEL(name, needs) extern const DynamicDepthwiseOps name;
#include "kernels/dynamic_depthwise/kernels.inc"
#undef INTACT_KERNEL

}  // namespace intact
