// Micro-kernels whose registers are tiles. They multiply a block of up to 32 rows by one panel of up to 32
// channels or, for codes of 16 bits, 16 rows of high bytes and 16 of low bytes. The epilogue of the block
// before is interleaved with the products, so that tile and vector units work at once.
//
// A deep step is kDeepSteps k-steps, 64 bytes of each row. Rows are a constant pitch apart, and the bytes of
// a deep step are contiguous, in the image itself or where `gather` has copied them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/gemm/gemm.h"

namespace intact {

constexpr int kTileRows = 16, kBlockRows = 2 * kTileRows;
constexpr int kDeepSteps = 16, kDeepBytes = 4 * kDeepSteps;
constexpr ptrdiff_t kFetchedBytes = 64;  // by one prefetch
constexpr ptrdiff_t kGatheredBytes = kBlockRows * kDeepBytes;  // of one deep step, rows behind one another

// Steps of a window that are contiguous, within one deep step.
struct TilePiece {
  int32_t from;  // offset from a row's address
  int32_t to;  // offset from the gathered row
  int32_t steps;  // 1 to kDeepSteps
};

struct TileGather {
  const TilePiece* pieces;
  int32_t count;
  const uint8_t* const* x;  // rows
  ptrdiff_t x_offset;  // added to each
  int rows;  // further rows of the block are not written, as their sums are not read
};

struct TilePending;
// Rows [first, first + count): an even number, from an even one on.
using TileEpilogue = void (*)(const TilePending& block, int first, int count);

// A block whose sums are complete and whose epilogue is pending. Rows that are no output have a dummy
// target. With `joins`, sums are kTileRows rows of high bytes, then those of low bytes, each with their
// corrections (join_sums).
struct TilePending {
  const Epilogue* epilogue = nullptr;
  TileEpilogue finish = nullptr;
  const int32_t* correction = nullptr;  // [width], still to be added
  int32_t* sums = nullptr;
  GemmRows rows{};  // rows.rows: 0, kTileRows or kBlockRows
  bool joins = false;
  const int32_t* high_correction = nullptr;
  int shift = 0;
  int done = 0;

  void advance(int count) {
    const int left = rows.rows - done;
    if (count > left) count = left;
    if (count <= 0) return;
    // Functions are faster on many rows at once, unless they are computed by bounds.
    if (count < left && epilogue->function != nullptr && epilogue->cells == nullptr) return;
    finish(*this, done, count);
    done += count;
  }
};

struct TileBlock {
  const uint8_t* x;  // row 0
  ptrdiff_t pitch;
  ptrdiff_t below;  // from row 0 to row kTileRows: further rows, or the low bytes of the same
  const int32_t* offsets;  // of each deep step from a row
  int32_t depth;  // deep steps
  int rows;  // kTileRows or kBlockRows
  int most;  // outputs' rows of a block: as many, or half of them
  int width;  // channels: one vector or two
  const int8_t* weights;
  int32_t* sums;  // [kBlockRows][width], aligned to 64
  const GemmRows*
      ends;  // where it will be written, and what is added: fetched in passing; nullptr: it has been
  const int8_t* next;  // fetched in passing, `lines` with every deep step
  int lines;
};

struct TileOps {
  // Called before and behind any number of sums, on their thread.
  void (*enter)();
  void (*leave)();
  // To [deep step][kBlockRows][kDeepBytes].
  void (*gather)(const TileGather& gather, uint8_t* to);
  TileEpilogue (*epilogue)(const Epilogue& epilogue, const GemmRows& rows, bool joins);
  // Completes `before` on the way.
  void (*sum)(const TileBlock& block, TilePending& before);
};

}  // namespace intact
