// Included by the files of kernels that read b as [k / 4][column][4] bytes.
#pragma once

#include <cstring>

#include "kernels/matmul/matmul.h"

namespace intact {
namespace {

// A side whose codes have no neighbours, with the bits of kTurn turned; 0 behind its columns and behind k,
// which is padded to a multiple of kDepth.
template <size_t kColumns, size_t kDepth, uint8_t kTurn>
void pack_any(const MatMulSide& b, uint8_t* to) {
  std::memset(to, 0, (b.k + kDepth - 1) / kDepth * kDepth * kColumns);
  for (size_t k = 0; k < b.k; ++k) {
    for (size_t j = 0; j < b.lines; ++j) {
      const uint8_t code = b.codes[static_cast<ptrdiff_t>(j) * b.line + static_cast<ptrdiff_t>(k) * b.step];
      to[(k / 4 * kColumns + j) * 4 + k % 4] = code ^ kTurn;
    }
  }
}

}  // namespace
}  // namespace intact
