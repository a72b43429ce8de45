// Rows of codes times block weights (N69), in two steps: rows are laid out once, then multiplied by panels.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "kernels/block_gemm/block_gemm.h"
#include "runtime/step.h"
#include "steps/common/block_values.h"

namespace intact {

// How K falls into units and pieces.
struct BlockCut {
  int64_t k, units, piece, pieces;  // units of 8 elements, in all and of a piece
  int64_t x_every, w_every;  // pieces of a block
  int64_t x_blocks, w_blocks;

  // Bytes of a row's codes.
  int64_t row_bytes() const { return units * static_cast<int64_t>(kBlockUnit); }

  // Blocks are of so many elements. Throws std::invalid_argument: neither is a part of the other, or one ends
  // within a unit, or a sum may leave int32.
  BlockCut(int64_t k_, int64_t x_block, int64_t w_block);
};

// Rows of x as products read them: in groups (kernels/block_gemm/block_gemm.h).
struct BlockRowsSpec {
  View x;  // i8 or u8 [rows, k], neighbours side by side
  View x_scales;  // f32 [rows, x_blocks]; rows may have one for all
  std::optional<View> x_zeros;  // u8, likewise
  // All dense.
  View codes;  // i8 [groups, bytes], of u8 less 128
  View negatives;  // i32 [groups, pieces * group]: sums of codes less their zeros, with the other sign
  View scales;  // f32 [groups, x_blocks * group]
  std::optional<View> zeros;  // i32, likewise: zeros less 128; where x is u8
};

struct BlockLinearSpec {
  View x_codes, negatives, x_scales;  // what the other step makes
  std::optional<View> x_zeros;
  View y;  // f32 [rows, n], neighbours side by side
  int bits;  // of packed codes
  View weight;  // u8 [bytes], packed, as are those below
  std::optional<View> table;  // u8 [16]: codes of 4 bits are places in it
  BlockValues scales;
  std::optional<View> zeros;  // u8 [panels, w_blocks, 16]; none: all are `zero`
  int32_t zero;
  std::optional<BlockValues> minima;
  std::optional<View> sums;  // i32 [panels, pieces, 16], where there are x_zeros
  std::optional<View> bias;  // f32 [panels, 16]
};

// Throw std::invalid_argument for a step that is unsafe to run (base/check.h).
std::unique_ptr<Step> make_block_rows(const BlockGemmOps& ops, const BlockRowsSpec& spec,
                                      const BlockCut& cut);
std::unique_ptr<Step> make_block_linear(const BlockGemmOps& ops, const BlockLinearSpec& spec,
                                        const BlockCut& cut);

// Panels of so many outputs, which are there.
int64_t block_panels(int64_t outputs);
// Throws std::invalid_argument unless they are packed codes of so many outputs, of 4 bits where there is a
// table of 16 values.
void demand_block_codes(const View& codes, const std::optional<View>& table, Type type, int bits,
                        const BlockCut& cut, int64_t outputs);

// Codes of `bits` bits that follow each other bit by bit, the lowest bit first, each of n rows from a byte
// on; as panels of packed_bits.
std::vector<uint8_t> pack_block_codes(std::span<const uint8_t> stream, int64_t n, int64_t k, int bits);
// Sums of packed codes of each piece, [panels, pieces, 16]; of places in `table` where that is not nullptr.
std::vector<int32_t> sum_block_codes(std::span<const uint8_t> packed, int64_t n, int bits,
                                     const BlockCut& cut, const uint8_t* table = nullptr);
// values[n][blocks] as [panels][blocks][16], zeros behind n.
template <class T>
std::vector<T> pack_block_values(std::span<const T> values, int64_t n) {
  const auto outputs = static_cast<size_t>(n), blocks = values.size() / outputs;
  std::vector<T> packed((outputs + kBlockPanel - 1) / kBlockPanel * kBlockPanel * blocks);
  for (size_t i = 0; i < outputs; ++i) {
    for (size_t b = 0; b < blocks; ++b) {
      packed[(i / kBlockPanel * blocks + b) * kBlockPanel + i % kBlockPanel] = values[i * blocks + b];
    }
  }
  return packed;
}

// Values as bytes of float16 where that holds all of them exactly, else as they are.
std::vector<uint8_t> halve_block_values(std::span<const float> values);

// Bits that k codes of `bits` bits take in panels: 5 and 6 where they are whole groups.
constexpr int packed_bits(int bits, int64_t k) {
  if (bits <= 4) return 4;
  const auto is_whole = [&](int packed) {
    return bits <= packed && k % static_cast<int64_t>(block_units(packed) * kBlockUnit) == 0;
  };
  return is_whole(5) ? 5 : is_whole(6) ? 6 : 8;
}

// Bytes of a panel of k codes of so many bits.
constexpr size_t block_panel_bytes(int64_t k, int packed) {
  const auto units = (static_cast<size_t>(k) + kBlockUnit - 1) / kBlockUnit;
  return units * static_cast<size_t>(packed) * kBlockPanel;
}

}  // namespace intact
