// The inputs and targets of sums, tile by tile, for bytes and for the two bytes of 16-bit codes. For
// steps/conv.cc and chosen_linear.cc alone.
#pragma once

#include "steps/conv/window_copies.h"

namespace intact::conv_panels {

// The rows of the next tile.
struct Source {
  GemmTile tile;  // begins as all rows
  const int32_t* outliers;  // where the outliers of each tile end

  void sum(const GemmOps& kernel, const GemmSteps& steps, int index, int rows) {
    tile.rows = rows;
    if (tile.outliers != nullptr) {
      tile.begin = outliers[index];
      tile.end = outliers[index + 1];
    }
    kernel.sum(steps, tile);
    tile.x += rows;
    if (tile.words != nullptr) tile.words += rows * tile.pitch;
  }
};

// Copies of windows, and the distance from high bytes to low ones.
struct WindowCopy {
  WindowCopies::Rows x, low;
  ptrdiff_t apart;
};

// Prefetches the outputs and residuals of a tile. They are on distant cache lines, which arrive during the
// sums.
template <class Byte>
inline void fetch_lines([[maybe_unused]] Byte* const* rows, [[maybe_unused]] int count,
                        [[maybe_unused]] ptrdiff_t offset) {
#if defined(__GNUC__)
  for (int i = 0; i < count; ++i) __builtin_prefetch(rows[i] + offset, 1);
#endif
}

inline void join_tiles(int32_t* high, const int32_t* low, size_t n, int shift) {
  for (size_t i = 0; i < n; ++i) high[i] = join_sums(high[i], low[i], shift);
}

}  // namespace intact::conv_panels
