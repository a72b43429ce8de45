// Depthwise convolution of bytes: output channel c is the sum over the taps of input channel c, and its
// epilogue (kernels/epilogue.h). Sums are exact in int32, which may wrap around in between. The epilogue has
// no slopes, and a function only if the kernel has bounds for it. Codes of 16 bits are two
// images, of high and of low bytes. The sum of the high bytes, times 256, is the start of the sum of the low
// bytes. Images are NHWC. One call computes `pixels` neighbouring outputs of one row, for a range of channel
// blocks.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/cpu.h"
#include "kernels/epilogue.h"

namespace intact {

constexpr int kMostTaps = 1 << 10;

struct DepthwiseWeights {
  int kernel_h, kernel_w, channels;
  int high;  // the largest byte of x, from its view
  const int8_t* weight;  // [kernel_h][kernel_w][channels]
  const int32_t* correction;  // [channels], as multiplier and bias
  const float* multiplier;
  const float* bias;
  const float* gains;  // nullptr: none, nor shifts
  const float* shifts;
  bool joins = false;  // codes have 16 bits
};

struct DepthwiseRow {
  int kernel_h, kernel_w, channels;
  int high;  // that of the weights
  bool joins;  // as well
  const uint8_t* x;  // tap (0, 0) of the first output, channel 0
  ptrdiff_t apart;  // for codes of 16 bits: from a high byte to its low byte
  ptrdiff_t x_row, x_column, x_pixel;  // bytes between taps of a column, taps of a row, and outputs
  size_t pixels;
  size_t begin, end;  // channel blocks, of `block` channels each
  const uint8_t* packed;  // at a multiple of 64
  const uint8_t* residual;  // of the first output, channel 0; nullptr for none
  ptrdiff_t residual_pixel;
  uint8_t* y;  // u8 or f32
  ptrdiff_t y_pixel;
  Epilogue epilogue;
};

// The functions of which run() computes codes by bounds (gemm/cells.h).
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
