// Packed weights of 3x3 convolutions for winograd.h: the bytes that plan files store.
//
//   WinogradHeader | int8 taps[panel][in / 2][9][width of the panel][2]
//
// Panels are those of the gemm kernel. Little-endian. read_winograd checks all bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/winograd/winograd.h"

namespace intact {

struct WinogradHeader {
  uint32_t magic;
  int32_t unit, widest;  // of the panels
  int32_t out, in, high;
  int64_t bytes;  // of all
  int32_t unused[8];
};
static_assert(sizeof(WinogradHeader) == 64);

// Returns whether all outputs of such a convolution, weights int8 [out, 3, 3, in] and bytes up to `high`,
// stay within kWinogradMost, and `in` is a multiple of kWinogradChannels.
bool winograd_fits(int32_t out, int32_t in, int32_t high, const int8_t* weights);

// Throws std::invalid_argument unless winograd_fits.
std::vector<uint8_t> pack_winograd(int32_t out, int32_t in, int32_t high, const int8_t* weights,
                                   const WinogradOps& ops);

struct WinogradPanel {
  const int8_t* taps;  // in the bytes given
  int32_t channel, channels, width;
};
struct WinogradPacked {
  WinogradHeader header;
  std::vector<WinogradPanel> panels;
};
// Throws std::invalid_argument for bytes that pack_winograd does not write for such a kernel.
WinogradPacked read_winograd(const uint8_t* bytes, size_t size, const WinogradOps& ops);

}  // namespace intact
