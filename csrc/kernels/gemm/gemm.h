// Sums of products of bytes with constant int8 weights, and their epilogues, which make codes or floats:
// numerics.linear, numerics.conv, numerics.requantize and numerics.to_real (N19 to N25), normative.
//
// A tile is a few output pixels (rows, each with the address of its own input) by one panel of output
// channels. A k-step is 4 neighbouring input bytes at one offset from the address of any row:
//
//   sums[row][c] = correction[c] + sum over steps s, bytes b of x[row][step[s] + b] * weight[s][c][b]
//
// so matrices and convolutions of any stride, dilation and padding are the same loop. Steps are packed
// without shapes, as positions in the window, and become offsets when a step is made (packed.h).
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/cpu.h"
#include "kernels/epilogue.h"

namespace intact {

// At most so many steps of a panel share one 16-bit sum (grouped kernels).
constexpr int kMostGroup = 8;

constexpr int kFetched = 128;

// Steps of one panel, resolved. Weights lie as [step][channel][4] or, of panels that read nothing but words,
// in halves (packed.h).
//   runs (not grouped): steps are pairs (offset, n) of n steps whose offsets grow by 4; counts[0] pairs.
//   grouped: one offset for each step; first counts[7] groups of 8 steps, then counts[6] groups of 7, ...
//     Where rows are copies of windows (GemmCopy), an offset is from the copy's beginning, in elements.
struct GemmSteps {
  const int8_t* weights;
  const int32_t* steps;
  int32_t counts[kMostGroup];
  int width;  // channels, a multiple of the kernel's unit
  int32_t words = 0;  // steps, all of them, of panels that read words; 0: never
  const int32_t* places = nullptr;  // of each step of the window, where it lies in `weights`: for outliers
};

// Most bytes of a tensor lie within so many neighbouring ones, the inliers: two products of those with any
// weights, and their sum, fit 16 bits. So do those of what outliers exceed them by, which are formed apart.
// Of fewer inliers more products fit one sum, and more bytes are outliers: 112 was faster where inputs are
// outputs of a Relu, and slower where they are not.
constexpr int kInliers = 128;

// Steps of 4 bytes that have outliers: by how much they exceed. One list of each.
struct GemmOutliers {
  int32_t* bytes;
  int32_t* signs;  // two words, both 1 or both -1
  int32_t* steps;  // of the window
  int32_t* rows;
};

// Copies of windows: the runs of each row behind one another. Words: 0, 2, 1, 3 of every four bytes.
struct GemmCopy {
  const int32_t* runs;  // pairs: offset from a row's address, number of steps of 4 bytes
  int32_t count;  // of pairs
  const uint8_t* const* x;  // rows
  ptrdiff_t x_offset;  // added to each
  int rows;
  ptrdiff_t pitch;  // of copies, from row to row, in elements
  int32_t base;  // subtracted
};

// Copies of a tile's rows as bytes up to kInliers - 1, and what they lack.
struct GemmSplit {
  uint8_t* bytes;
  GemmOutliers outliers;
  int32_t first, most;  // of the lists: the first is written here, and none behind
};

struct GemmTile {
  const uint8_t* const* x;  // rows
  ptrdiff_t x_offset;  // added to each: the group's channels
  int rows;  // 1 to the most that the kernel takes for this width
  const int32_t* correction;  // [width]
  int32_t* sums;  // [rows][width], aligned to 64; there is room for the most rows, and those may be written
  const int8_t* next;  // what is read later, kFetched bytes for each step: fetched in passing; or nullptr
  int64_t next_bytes;  // of them
  const int16_t* words = nullptr;  // the same rows, for panels of words
  ptrdiff_t pitch = 0;  // from row to row
  // Rows are bytes up to kInliers - 1, and to their sums outliers [begin, end) are added; nullptr: neither.
  const GemmOutliers* outliers = nullptr;
  int32_t begin = 0, end = 0;
};

struct GemmRows {
  const int32_t* sums;  // [rows][width]
  int rows, width;
  int channels;  // that exist, of width
  const float* multiplier;  // [width]
  const float* bias;  // [width]
  uint8_t* const* y;  // rows
  ptrdiff_t y_offset;
  const uint8_t* const* residual;  // rows, codes; nullptr: none
  ptrdiff_t residual_offset;
  float* scratch;  // [rows][width]
  const float* factors = nullptr;  // S, [width]; nullptr: none
  const float* slopes = nullptr;  // [width]; nullptr: none
  const float* offsets = nullptr;  // O, [width]; nullptr: none
  const float* gains = nullptr;  // G, [width]; nullptr: none, nor shifts
  const float* shifts = nullptr;  // H, [width]
};

// Sums of the high and low bytes of codes of 16 bits, as one: floor((256 * high + low) / 2^shift). What they
// are rounded by is part of the corrections. Proved to fit; 256 * high alone may wrap around where shift is
// 0.
inline int32_t join_sums(int32_t high, int32_t low, int shift) {
  const auto above = static_cast<uint32_t>(high) << (8 - shift);
  return static_cast<int32_t>(above + static_cast<uint32_t>(low >> shift));
}

struct TileOps;

struct GemmOps {
  static constexpr const char* kFamily = "gemm";
  int unit;  // channels of one vector
  int widest;  // vectors of a panel
  bool grouped;  // which form of steps it takes, and so how weights are packed
  int rows[4];  // most rows of a tile, by the number of vectors in the panel - 1
  int32_t shift;  // what it subtracts from each byte: corrections have to add shift * (sum of the weights)
  void (*sum)(const GemmSteps& steps, const GemmTile& tile);
  void (*finish)(const Epilogue& epilogue, const GemmRows& rows);
  // Optional: both, for any number of rows, which share out `next`. False, and nothing done, where the kernel
  // has no form that beats the two. `sums` and `scratch` are not used.
  bool (*whole)(const GemmSteps& steps, const GemmTile& tile, const Epilogue& epilogue,
                const GemmRows& rows) = nullptr;
  // Of grouped kernels.
  void (*widen)(const GemmCopy& copy, int16_t* words) = nullptr;
  // Returns where the lists end, or -1: there was no room.
  int32_t (*split)(const GemmCopy& copy, const GemmSplit& to) = nullptr;
  int deep = 1;  // weights of a panel are zeros up to a multiple of so many steps
  // Of kernels whose registers are tiles (tiles.h), which then have neither sum nor whole; nullptr: of
  // vectors.
  const TileOps* tiles = nullptr;
};

// The meaning of finish; kernels leave to it what they have no faster form of.
void gemm_finish(const Epilogue& epilogue, const GemmRows& rows);

#define INTACT_KERNEL(name, needs) extern const GemmOps name;
#include "kernels/gemm/kernels.inc"
#undef INTACT_KERNEL

}  // namespace intact
