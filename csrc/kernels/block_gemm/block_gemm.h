// Products of codes with block weights: numerics.block_product (N69), normative. K is cut into pieces whose
// elements share all scales. A piece has an exact int32 sum for each output, which is scaled and added to the
// output, one piece after the other, each operation rounded by itself.
//
// Weights are codes of 4 or 8 bits without a sign, in panels of 16 outputs and units of 8 elements along K.
// Of a unit of a panel the 64 bytes of the first four elements come first, four neighbours of each output,
// then those of the other four; of 4 bits the first are the low halves of 64 bytes, the others the high ones.
// Rows lie in groups, whose size a kernel says; the last group has rows that nobody asked for. Numbers of a
// group lie by turns: one of each row, then the next one of each. So do codes, four neighbours at a time,
// unless a kernel wants each row by itself.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/cpu.h"

namespace intact {

constexpr size_t kBlockPanel = 16, kBlockUnit = 8;

// Numbers of blocks, as float32 or, where that holds all of them exactly, as float16.
struct BlockReals {
  const void* values;  // nullptr: none
  bool is_half;
};

// Numbers of blocks of a panel in two levels: sub-scales of blocks under scales of super-blocks.
struct BlockLevels {
  const int8_t* fine;  // [blocks][16]
  BlockReals coarse;  // [supers][16]
  size_t each;  // blocks of a super-block
  size_t from, blocks;  // those that are multiplied
  float* to;  // [blocks][16], from `from` on: fl32(fine * coarse)
};

struct BlockGemm {
  const int8_t* x;  // [groups], of group * units * 8 codes, zeros behind the last
  size_t rows;
  const int32_t* negatives;  // [groups][pieces][group]: sums of codes less their zeros, with the other sign
  const float* x_scales;  // [groups][x_blocks][group]
  const int32_t* x_zeros;  // likewise; nullptr: all are 0
  size_t x_blocks;
  const uint8_t* codes;  // [panels][units]
  BlockReals scales;  // [panels][w_blocks][16]
  const uint8_t* zeros;  // likewise; nullptr: all are `zero`
  int32_t zero;
  BlockReals minima;  // likewise, or none
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
  const uint8_t* codes;  // [units]
  BlockReals scales;  // [w_blocks][16]
  const uint8_t* zeros;  // likewise; nullptr: all are `zero`
  int32_t zero;
  BlockReals minima;  // likewise, or none
  size_t piece;  // units of a block
  size_t from, units;  // units that are widened
  float* to;  // output i of element k lies at i / width * pitch + k * width + i % width
  size_t width, pitch;  // of the product's panels
};

struct BlockGemmOps {
  static constexpr const char* kFamily = "block_gemm";
  size_t group;
  bool by_turns;  // codes
  size_t least_rows;  // from here on it is the best where it runs
  size_t scratch;  // bytes for each unit
  size_t panels;  // that are multiplied together: pieces of work are multiples
  void (*multiply4)(const BlockGemm& g);
  void (*multiply8)(const BlockGemm& g);
  void (*widen4)(const BlockFloats& w);
  void (*widen8)(const BlockFloats& w);
  void (*multiply_levels)(const BlockLevels& l);
};

// Elements of a piece.
constexpr size_t elements_of_piece(const BlockGemm& g, size_t p) {
  const size_t from = p * g.piece * kBlockUnit, rest = g.k - from;
  return rest < g.piece * kBlockUnit ? rest : g.piece * kBlockUnit;
}

#define INTACT_KERNEL(name, needs) extern const BlockGemmOps name;
#include "kernels/block_gemm/kernels.inc"
#undef INTACT_KERNEL

}  // namespace intact
