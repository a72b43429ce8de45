// Codes of a row as products with weights in blocks read them (kernels/block_gemm/block_gemm.h).
#pragma once

#include <array>
#include <cstring>

#include "kernels/block_gemm/block_gemm.h"

namespace intact {

// How the rows of a group lie in its codes.
struct BlockRowPitch {
  BlockRowPitch(const BlockGemmOps& ops, int64_t row_bytes)
      : row(ops.by_turns ? 4 : row_bytes), four(ops.by_turns ? 4 * static_cast<int64_t>(ops.group) : 4) {}
  int64_t row, four;  // bytes from a row to the next one, and from four neighbours to the next four
};

// Lays the elements [from, end) of a row, `from` a multiple of 8, and zeros up to a multiple of 8 behind
// them. Codes without a sign become those less 128. Returns the sum of what is laid.
inline int32_t lay_block_codes(const uint8_t* x, int64_t from, int64_t end, bool is_unsigned, int8_t* row,
                               int64_t four_pitch) {
  constexpr auto kUnit = static_cast<int64_t>(kBlockUnit);
  const uint32_t flip = is_unsigned ? 0x80808080u : 0u;
  int32_t sum = 0;
  for (int64_t i = from; i < (end + kUnit - 1) / kUnit * kUnit; i += 4) {
    uint32_t codes = 0;
    if (i + 4 <= end) {
      std::memcpy(&codes, x + i, 4);
      codes ^= flip;
    } else if (i < end) {
      std::memcpy(&codes, x + i, static_cast<size_t>(end - i));
      codes = (codes ^ flip) & ((1u << (8 * (end - i))) - 1);
    }
    std::array<int8_t, 4> four;
    std::memcpy(four.data(), &codes, 4);
    std::memcpy(row + i / 4 * four_pitch, &codes, 4);
    for (const int8_t code : four) sum += code;
  }
  return sum;
}

// The same for a row that is not there: zeros.
inline void lay_no_codes(int64_t end, int8_t* row, int64_t four_pitch) {
  for (int64_t four = 0; four < end / 4; ++four) std::memset(row + four * four_pitch, 0, 4);
}

}  // namespace intact
