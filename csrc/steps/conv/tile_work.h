// The data of a convolution by tiles: panels, numbered rows, and the state of one thread. For conv_tiles.cc
// alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>
#include <vector>

#include "kernels/gemm/tiles.h"

namespace intact::conv_tiles {

struct Panel {
  const int8_t* weights;
  int32_t channel, channels, width, group;
  size_t constants;  // index of its first constant
  int64_t bytes;  // of weights
};

// Frees memory that was allocated at a multiple of a cache line.
struct Aligned {
  static constexpr std::align_val_t kBytes{64};
  void operator()(int8_t* p) const { ::operator delete[](p, kBytes); }
};

// Rows of sums, numbered. They are the output pixels or, where tiles are loaded from the image itself, all
// positions of the window from the first output to the last, those in the halo included.
struct Rows {
  int64_t each_line, each_image;  // rows per line and per image
  int64_t total;
};

struct Range {
  int64_t first, end;
  int64_t count() const { return end - first; }
};

// Addresses of the rows of a range, block by block.
struct Addresses {
  uint8_t** y;
  const uint8_t** residual;
  const uint8_t** x;  // where rows are gathered
};

// The state of one thread.
struct Work {
  Addresses rows;
  uint8_t* nowhere;  // target of rows that are no output
  float* floats;
  uint8_t* gathered;
  ptrdiff_t apart = 0;  // from high bytes to low ones
  Range range{0, 0};
  int32_t group = -1;  // whose rows are gathered now
  TilePending blocks[2];  // the block whose sums are formed, and the one before
  bool odd = false;

  TilePending& now() { return blocks[odd]; }
  TilePending& before() { return blocks[!odd]; }
  void flush() { before().advance(kBlockRows); }
};

// Memory that is read later, and prefetched meanwhile.
struct Ahead {
  const int8_t* from = nullptr;
  int64_t bytes = 0;

  void pass(int64_t fetched) {
    from += fetched;
    bytes -= fetched;
  }
};

}  // namespace intact::conv_tiles
