// Products of codes with block weights: numerics.block_product (N69), normative. K is cut into pieces whose
// elements share all scales. A piece has an exact int32 sum for each output, which is scaled and added to the
// output, one piece after the other, each operation rounded by itself.
//
// Weights are codes of 4, 5, 6 or 8 bits without a sign, in panels of 16 outputs and units of 8 elements
// along K. Of a unit of a panel the 64 bytes of the first four elements come first, four neighbours of each
// output, then those of the other four; of 4 bits the first are the low halves of 64 bytes, the others the
// high ones. Codes of 5 and 6 bits lie in groups of 4 and 2 units: 64 bytes with the high bits of all of
// them, those of the first four elements lowest, then their low 4 bits as units of 4 bits. Codes of 4 bits
// may be places in a table.
// Rows lie in groups, whose size a kernel says; the last group has rows that nobody asked for. Numbers of a
// group lie by turns: one of each row, then the next one of each. How codes lie is the kernel's affair, which
// lays them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/cpu.h"

namespace intact {

constexpr size_t kBlockPanel = 16, kBlockUnit = 8;
constexpr size_t kBlockMostGroup = 16;  // rows of a group, at most
constexpr int kBlockTable = 0;  // "bits" of places in a table
constexpr size_t kBlockTableSize = 16;

// Units that codes of so many bits lie in groups of.
constexpr size_t block_units(int bits) { return bits == 5 ? 4 : bits == 6 ? 2 : 1; }

// Bytes of a unit of a panel.
constexpr size_t block_unit_bytes(int bits) {
  return static_cast<size_t>(bits == kBlockTable ? 4 : bits) * kBlockPanel;
}

// The code of element k of an output of a panel.
inline uint8_t block_code(const uint8_t* panel, int bits, size_t k, size_t output) {
  const size_t unit = k / kBlockUnit, half = k % kBlockUnit / 4, at = output * 4 + k % 4;
  if (bits == 8) return panel[(unit * 2 + half) * 64 + at];
  const size_t units = block_units(bits), first = bits == 4 ? 0 : 64, within = unit % units;
  const uint8_t* const group = panel + unit / units * (first + units * 64);
  const int low = group[first + within * 64 + at] >> (4 * half) & 15;
  if (bits == 4) return static_cast<uint8_t>(low);
  const int each = bits - 4, high = group[at] >> (static_cast<int>(within * 2 + half) * each);
  return static_cast<uint8_t>(low | (high & ((1 << each) - 1)) << 4);
}

// Writes a code to bytes of a panel that are 0.
inline void add_block_code(uint8_t* panel, int bits, size_t k, size_t output, unsigned code) {
  const size_t unit = k / kBlockUnit, half = k % kBlockUnit / 4, at = output * 4 + k % 4;
  const auto add = [](uint8_t& byte, size_t more) { byte = static_cast<uint8_t>(byte | more); };
  if (bits == 8) return add(panel[(unit * 2 + half) * 64 + at], code);
  const size_t units = block_units(bits), first = bits == 4 ? 0 : 64, within = unit % units;
  uint8_t* const group = panel + unit / units * (first + units * 64);
  add(group[first + within * 64 + at], (code & 15) << (4 * half));
  if (bits != 4) add(group[at], code >> 4 << ((within * 2 + half) * static_cast<size_t>(bits - 4)));
}

// Numbers of blocks, as float32 or, where that holds all of them exactly, as float16; or, in two levels,
// integers of blocks that are multiplied by the numbers of super-blocks: fl32(fine * value).
struct BlockReals {
  const void* values = nullptr;  // [panels][blocks or supers][16]; nullptr: none
  bool is_half = false;
  const int8_t* fine = nullptr;  // [panels][blocks][16]; nullptr: one level
  size_t each = 1;  // blocks of a super-block
};

// Rows of a group, to be laid as products read them.
struct BlockLay {
  const uint8_t* const* x;  // [group], of k codes; nullptr: no such row, its codes become 0
  bool is_unsigned;  // codes become those less 128
  size_t k, units, pieces, piece;  // as below
  int8_t* codes;  // of the group
  int32_t* negatives;  // [pieces][group]: sums of what is laid, with the other sign
};

struct BlockGemm {
  const int8_t* x;  // [groups], of group * units * 8 codes, zeros behind the last
  size_t rows;
  const int32_t* negatives;  // [groups][pieces][group]: sums of codes less their zeros, with the other sign
  const float* x_scales;  // [groups][x_blocks][group]
  const int32_t* x_zeros;  // likewise; nullptr: all are 0
  size_t x_blocks;
  const uint8_t* codes;  // [panels][units]
  const uint8_t* table;  // [16] codes, whose places `multiply_table` reads
  BlockReals scales;  // of w_blocks
  const uint8_t* zeros;  // [panels][w_blocks][16]; nullptr: all are `zero`
  int32_t zero;
  BlockReals minima;  // of w_blocks, or none
  const int32_t* sums;  // [panels][pieces][16]: of the weights' codes; wanted where there are x_zeros
  size_t w_blocks;
  const float* bias;  // [panels][16], or nullptr
  size_t k, units, pieces, piece;  // elements and units in all, and of a piece; the last piece may have fewer
  size_t x_every, w_every;  // pieces of a block
  float* y;  // [rows][y_pitch]
  size_t y_pitch, columns;  // columns begin with those of the first panel
  uint8_t* scratch;  // as the kernel says
};

// Weights of a panel as the right side of a product of floats: numerics.dequantize_blocks (N67), normative.
struct BlockFloats {
  const uint8_t* codes;  // [units], of 4 or 8 bits
  const float* table;  // [16]: values of codes of 4 bits, without zeros; nullptr: codes are what they are
  BlockReals scales;  // [w_blocks][16], in one level
  const uint8_t* zeros;  // likewise; nullptr: all are `zero`
  int32_t zero;
  BlockReals minima;  // likewise, or none
  size_t piece;  // units of a block
  size_t from, units;  // units of the first block that come before, and those that are widened
  float* to;  // output i of element k lies at i / width * pitch + k * width + i % width
  size_t width, pitch;  // of the product's panels
};

// Few rows of floats times such weights, widened in registers: y becomes numerics.float_product (N51).
struct BlockFloatRows {
  const float* const* a;  // [rows], of k neighbours
  size_t rows, k, units;
  const uint8_t* codes;  // [panels][units], of 4 or 8 bits
  const float* table;  // as above
  BlockReals scales;  // of w_blocks, in one level or two
  const uint8_t* zeros;  // [panels][w_blocks][16]; nullptr: all are `zero`
  int32_t zero;
  size_t w_blocks, piece;  // units of a block
  const float* start;  // [columns], or nullptr
  float* const* y;  // [rows], of columns side by side
  size_t columns;
};

struct BlockGemmOps {
  static constexpr const char* kFamily = "block_gemm";
  size_t group;
  void (*lay)(const BlockLay& l);
  size_t least_rows;  // from here on it is the best where it runs
  size_t scratch;  // bytes for each unit
  size_t panels;  // that are multiplied together: pieces of work are multiples
  // Up to so many rows it reads numbers in two levels, and codes of 5 and 6 bits where pieces are whole
  // groups. For more rows the functions at the end work both out once.
  size_t few_rows;
  void (*multiply4)(const BlockGemm& g);
  void (*multiply5)(const BlockGemm& g);
  void (*multiply6)(const BlockGemm& g);
  void (*multiply8)(const BlockGemm& g);
  void (*multiply_table)(const BlockGemm& g);  // of few rows
  void (*widen4)(const BlockFloats& w);
  void (*widen8)(const BlockFloats& w);
  // Codes of 5 and 6 bits are whole groups; blocks may end within them.
  void (*float_rows4)(const BlockFloatRows& g);
  void (*float_rows8)(const BlockFloatRows& g);
  // Codes of whole groups of a panel, as codes of 8 bits.
  void (*expand5)(const uint8_t* codes, size_t units, uint8_t* to);
  void (*expand6)(const uint8_t* codes, size_t units, uint8_t* to);
  // Codes of places in a table, as codes of 8 bits.
  void (*expand_table)(const uint8_t* codes, size_t units, const uint8_t* table, uint8_t* to);
  // Products of two levels of a panel's blocks from `from` on, [blocks][16].
  void (*multiply_levels)(const BlockReals& reals, size_t from, size_t blocks, float* to);
};

// Elements of a piece.
constexpr size_t elements_of_piece(const BlockGemm& g, size_t p) {
  const size_t from = p * g.piece * kBlockUnit, rest = g.k - from;
  return rest < g.piece * kBlockUnit ? rest : g.piece * kBlockUnit;
}

// Packed codes of whole groups of a panel that no product reads as they are, as codes of 8 bits. `table`:
// nullptr where codes are no places in one.
inline void expand_codes(const BlockGemmOps& ops, int bits, const uint8_t* codes, size_t units,
                         const uint8_t* table, uint8_t* to) {
  if (table != nullptr) return ops.expand_table(codes, units, table, to);
  (bits == 5 ? ops.expand5 : ops.expand6)(codes, units, to);
}

#define INTACT_KERNEL(name, needs) extern const BlockGemmOps name;
#include "kernels/block_gemm/kernels.inc"
#undef INTACT_KERNEL

}  // namespace intact
