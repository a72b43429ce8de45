// 3x3 convolutions of stride 1 by Winograd's minimal filtering F(4x4, 3x3) (Lavin & Gray, arXiv 1509.09308),
// in integers and exact: 36 products of 16 bits make 16 outputs that need 144 otherwise.
//
//   sums[point][c] = sum over k of input[point][k] * weights[point][k][c]        36 points, 32 bits, wrapping
//   input   = B' d B        of 6x6 bytes d             at most 17340 in magnitude for bytes up to 255
//   weights = G g G'        of 3x3 weights g, the rows of G scaled to integers:   at most 49 * 128
//   output  = A' sums A     with the scales taken out again
//
// Every step but the last adds and multiplies modulo 2^32, where Winograd's identity holds as it does for
// reals. The result is 576 = 64 * 9 times the convolution. 9 has an inverse modulo 2^32, and a shift divides
// by 64, exactly if the convolution itself is within 2^25. pack.cc proves that for every output channel.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/cpu.h"
#include "kernels/gemm/gemm.h"

namespace intact {

constexpr int kTileIn = 6, kTileOut = 4, kPoints = kTileIn * kTileIn;
constexpr int kTileOutputs = kTileOut * kTileOut;
// Channels of the input come in such multiples.
constexpr int kWinogradChannels = 32;
// The largest magnitude that a convolution may reach.
constexpr int64_t kWinogradMost = (int64_t{1} << 25) - 1;

// One tile of an image: byte c of its pixel (i, j) is rows[i][columns[j] + c].
struct WinogradPixels {
  const uint8_t* rows[kTileIn];
  ptrdiff_t columns[kTileIn];
  int channels;
};

// Weights are bytes in memory, [channels / 2][9 taps][width][2], and are transformed on use. Transformed
// weights are eight times as large, and loading them from memory takes longer than the transform.
struct WinogradTaps {
  const int8_t* taps;
  int channels, width;
  int row;  // of the points: 6 of them are made at a time
};

// The products of one point and one panel of output channels.
struct WinogradProduct {
  const int16_t* input;  // [tiles][channels]
  const int16_t* weights;  // [channels / 2][width][2]
  int channels, tiles, width;
  int32_t* sums;  // [tiles][width], aligned to 64
};

// Measured costs, in products of bytes of gemm on the same machine; they only affect the choice of kernels.
struct WinogradCost {
  double product;  // of 16 bits
  double weight;  // transformed once
  double channel;  // of one tile's input or output, transformed once
};

struct WinogradOps {
  static constexpr const char* kFamily = "winograd";
  const GemmOps* gemm;  // the kernel that gives epilogues and unit
  int widest;  // vectors of a panel
  WinogradCost cost;
  // To input[point * plane + c].
  void (*transform_input)(const WinogradPixels& pixels, int16_t* input, ptrdiff_t plane);
  // To weights[column of the point][channels / 2][width][2].
  void (*transform_weights)(const WinogradTaps& taps, int16_t* weights);
  void (*multiply)(const WinogradProduct& product);
  // From sums[point * plane + c] to outputs[pixel * width + c], corrections added.
  void (*transform_output)(const int32_t* sums, ptrdiff_t plane, const int32_t* correction, int width,
                           int32_t* outputs);
};

#define INTACT_KERNEL(name, needs) extern const WinogradOps name;
#include "kernels/winograd/kernels.inc"
#undef INTACT_KERNEL

}  // namespace intact
