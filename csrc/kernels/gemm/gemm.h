// Sums of products of bytes with constant int8 weights, and their epilogues to codes or floats. Normative are
// numerics.linear, numerics.conv, numerics.requantize and numerics.to_real (N19 to N25).
//
// A tile is a few output pixels (rows, each with the address of its own input) by one panel of output
// channels. A k-step is 4 neighbouring input bytes at one offset from the address of any row:
//
//   sums[row][c] = correction[c] + sum over steps s, bytes b of x[row][step[s] + b] * weight[s][c][b]
//
// so one loop serves matrices and convolutions of any stride, dilation and padding. Packed weights hold
// steps as positions in the window, without shapes; the maker of a step turns them into offsets (packed.h).
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/cpu.h"
#include "kernels/epilogue.h"

namespace intact {

// The most steps of a panel that share one 16-bit sum (grouped kernels).
constexpr int kMostGroup = 8;

constexpr int kFetched = 128;

// The steps of one panel as offsets. Weights are [step][channel][4] or, for panels that read only words, in
// halves (packed.h).
//   runs (not grouped): steps are pairs (offset, n) of n steps whose offsets grow by 4; counts[0] pairs.
//   grouped: one offset for each step; first counts[7] groups of 8 steps, then counts[6] groups of 7, ...
//     If rows are copies of windows (GemmCopy), offsets count elements from the start of the copy.
struct GemmSteps {
  const int8_t* weights;
  const int32_t* steps;
  int32_t counts[kMostGroup];
  int width;  // channels, a multiple of the kernel's unit
  int32_t words = 0;  // the number of steps, if the panel reads words; 0 otherwise
  const int32_t* places = nullptr;  // per step of the window, its index in `weights`; for outliers
};

// The number of inliers: neighbouring byte values that contain most bytes of a tensor. The sum of two
// products of inliers with any weights fits 16 bits. The amounts by which outliers exceed inliers are
// multiplied apart, and their sums fit 16 bits, too. With fewer inliers more products fit one sum, but more
// bytes are outliers: 112 was faster for outputs of a Relu, and slower for other inputs.
constexpr int kInliers = 128;

// Lists of the steps of 4 bytes that have outliers, and of the amounts by which they exceed inliers.
struct GemmOutliers {
  int32_t* bytes;
  int32_t* signs;  // two words, both 1 or both -1
  int32_t* steps;  // of the window
  int32_t* rows;
};

// Copies of windows: the runs of each row, one behind the other. As words, four bytes are in the order 0, 2,
// 1, 3.
struct GemmCopy {
  const int32_t* runs;  // pairs: offset from a row's address, number of steps of 4 bytes
  int32_t count;  // of pairs
  const uint8_t* const* x;  // rows
  ptrdiff_t x_offset;  // added to each
  int rows;
  ptrdiff_t pitch;  // of copies, from row to row, in elements
  int32_t base;  // subtracted
};

// Copies of the rows of a tile as inlier bytes, 0 to kInliers - 1, and the lists of their outliers.
struct GemmSplit {
  uint8_t* bytes;
  GemmOutliers outliers;
  int32_t first, most;  // the index of the first list entry to write, and the size of the lists
};

struct GemmTile {
  const uint8_t* const* x;  // rows
  ptrdiff_t x_offset;  // added to each: the group's channels
  int rows;  // 1 to the kernel's most for this width
  const int32_t* correction;  // [width]
  int32_t* sums;  // [rows][width], aligned to 64, with room for the most rows, all of which may be written
  const int8_t* next;  // weights to prefetch, kFetched bytes with each step; or nullptr
  int64_t next_bytes;  // of them
  const int16_t* words = nullptr;  // the same rows, for panels of words
  ptrdiff_t pitch = 0;  // from row to row
  // If set, rows are inlier bytes, and the products of outliers [begin, end) are added to their sums.
  const GemmOutliers* outliers = nullptr;
  int32_t begin = 0, end = 0;
};

struct GemmRows {
  const int32_t* sums;  // [rows][width]
  int rows, width;
  int channels;  // of `width`, the others are padding
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

// Joins sums of high and low bytes of 16-bit codes: floor((256 * high + low) / 2^shift). The half for
// rounding is part of the corrections. The result is proved to fit, but 256 * high may wrap around where
// shift is 0.
inline int32_t join_sums(int32_t high, int32_t low, int shift) {
  const auto above = static_cast<uint32_t>(high) << (8 - shift);
  return static_cast<int32_t>(above + static_cast<uint32_t>(low >> shift));
}

struct TileOps;

struct GemmOps {
  static constexpr const char* kFamily = "gemm";
  int unit;  // channels of one vector
  int widest;  // vectors of a panel
  bool grouped;  // the form of its steps, and of its packed weights
  int rows[4];  // the most rows of a tile, by the number of vectors in the panel - 1
  int32_t shift;  // subtracted from each byte; corrections add shift * (sum of the weights)
  void (*sum)(const GemmSteps& steps, const GemmTile& tile);
  void (*finish)(const Epilogue& epilogue, const GemmRows& rows);
  // Optional: sum and finish in one, for any number of rows, which divide `next` among them. Returns false,
  // without an effect, if the kernel has no form that is faster than the two. `sums` and `scratch` are not
  // used.
  bool (*whole)(const GemmSteps& steps, const GemmTile& tile, const Epilogue& epilogue,
                const GemmRows& rows) = nullptr;
  // For grouped kernels.
  void (*widen)(const GemmCopy& copy, int16_t* words) = nullptr;
  // Returns the end of the lists, or -1 if they are full.
  int32_t (*split)(const GemmCopy& copy, const GemmSplit& to) = nullptr;
  int deep = 1;  // panels are padded with zero weights to a multiple of so many steps
  // For kernels whose registers are tiles (tiles.h), which have neither sum nor whole; nullptr for kernels
  // of vectors.
  const TileOps* tiles = nullptr;
};

// The reference of finish. Kernels call it for epilogues of which they have no faster form.
void gemm_finish(const Epilogue& epilogue, const GemmRows& rows);

#define INTACT_KERNEL(name, needs) extern const GemmOps name;
#include "kernels/gemm/kernels.inc"
#undef INTACT_KERNEL

}  // namespace intact
