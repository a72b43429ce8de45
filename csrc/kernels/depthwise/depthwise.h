// Depthwise convolution of bytes: channel c of the output is a sum over the taps of channel c of the input.
// exact in int32, which wraps around in between, and the epilogue (kernels/epilogue.h), without a gain or
// slopes, without a function but where a kernel knows its bounds, and divided only behind a residual.
// Codes of 16 bits are two images, of their high and of their low bytes: the sum of the high ones, times 256,
// is what the sum of the low ones begins with.
// Images lie NHWC. One call makes `pixels` neighbouring outputs of one row, for a range of channel blocks.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/cpu.h"
#include "kernels/epilogue.h"

namespace intact {

constexpr int kMostTaps = 1 << 10;

struct DepthwiseWeights {
  int kernel_h, kernel_w, channels;
  int high;  // no byte of x is larger: that of its view
  const int8_t* weight;  // [kernel_h][kernel_w][channels]
  const int32_t* correction;  // [channels], as multiplier and bias
  const float* multiplier;
  const float* bias;
  bool joins = false;  // codes have 16 bits
};

struct DepthwiseRow {
  int kernel_h, kernel_w, channels;
  int high;  // that of the weights
  bool joins;  // as well
  const uint8_t* x;  // tap (0, 0) of the first output, channel 0
  ptrdiff_t apart;  // where codes have 16 bits, from a high byte to its low one
  ptrdiff_t x_row, x_column, x_pixel;  // bytes from tap to tap down and right, and from output to output
  size_t pixels;
  size_t begin, end;  // channel blocks, of `block` channels each
  const uint8_t* packed;  // at a multiple of 64
  const uint8_t* residual;  // of the first output, channel 0; nullptr for none
  ptrdiff_t residual_pixel;
  uint8_t* y;  // u8 or f32
  ptrdiff_t y_pixel;
  Epilogue epilogue;
};

// Of which functions run() makes codes, of epilogues that have cells.
enum class FunctionBounds : uint8_t { none, with_end, all };

struct DepthwiseOps {
  static constexpr const char* kFamily = "depthwise";
  size_t block;  // channels that are packed together
  size_t slack;  // bytes that run() may read behind x and residual, where channels % block != 0
  size_t (*packed_bytes)(const DepthwiseWeights& weights);
  // To a multiple of 64. Weights of channels and taps that do not exist are 0.
  void (*pack)(const DepthwiseWeights& weights, uint8_t* packed);
  void (*run)(const DepthwiseRow& row);
  FunctionBounds bounds = FunctionBounds::none;
};

#define INTACT_KERNEL(name, needs) extern const DepthwiseOps name;
#include "kernels/depthwise/kernels.inc"
#undef INTACT_KERNEL

}  // namespace intact
