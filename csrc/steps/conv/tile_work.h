// What a convolution by tiles works on: panels, rows by number, and what one thread has under way. For
// conv_tiles.cc alone.
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
  size_t constants;  // where its own begin
  int64_t bytes;  // of weights
};

// Frees what was allocated for whole lines.
struct Aligned {
  static constexpr std::align_val_t kBytes{64};
  void operator()(int8_t* p) const { ::operator delete[](p, kBytes); }
};

// Rows of sums, by number: output pixels or, where tiles are loaded as the image lies, all positions of the
// window from the first pixel's to the last one's, its halo's included.
struct Rows {
  int64_t each_line, each_image;  // from line to line, from image to image
  int64_t total;
};

struct Range {
  int64_t first, end;
  int64_t count() const { return end - first; }
};

// Addresses of a range's rows, as many for each block as it makes.
struct Addresses {
  uint8_t** y;
  const uint8_t** residual;
  const uint8_t** x;  // of what is gathered
};

// What one thread has under way.
struct Work {
  Addresses rows;
  uint8_t* nowhere;  // where rows are written that nobody wants
  float* floats;
  uint8_t* gathered;
  ptrdiff_t apart = 0;  // from high bytes to low ones
  Range range{0, 0};
  int32_t group = -1;  // that is gathered
  TilePending blocks[2];  // the one that is summed, and the one before
  bool odd = false;

  TilePending& now() { return blocks[odd]; }
  TilePending& before() { return blocks[!odd]; }
  void flush() { before().advance(kBlockRows); }
};

// What is read later, and is fetched in passing.
struct Ahead {
  const int8_t* from = nullptr;
  int64_t bytes = 0;

  void pass(int64_t fetched) {
    from += fetched;
    bytes -= fetched;
  }
};

}  // namespace intact::conv_tiles
