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

// A window's steps in deep steps, each run of steps that lie side by side from a deep step of its own on.
struct DeepSteps {
  std::vector<int32_t> starts;  // of each deep step, from a row
  std::vector<int32_t> places;  // of each step: what number it has if deep steps are full

  explicit DeepSteps(const std::vector<int32_t>& steps) {
    int32_t place = -1;
    for (size_t i = 0; i < steps.size(); ++i) {
      const bool goes_on = i > 0 && steps[i] == steps[i - 1] + 4;
      place = goes_on ? place + 1 : static_cast<int32_t>(starts.size()) * kDeepSteps;
      if (place % kDeepSteps == 0) starts.push_back(steps[i]);
      places.push_back(place);
    }
  }

  // Whether it takes no zeros but behind all steps.
  bool filled() const { return places.empty() || places.back() + 1 == static_cast<int32_t>(places.size()); }
  // Bytes that are read behind the last step.
  size_t idle() const {
    return places.empty() ? 0 : (starts.size() * kDeepSteps - static_cast<size_t>(places.back()) - 1) * 4;
  }
  int64_t bytes_of(int32_t width) const {
    return static_cast<int64_t>(starts.size()) * kDeepSteps * width * 4;
  }
};

// Steps that lie side by side in one deep step are copied together.
inline std::vector<TilePiece> pieces_of(const std::vector<int32_t>& steps) {
  std::vector<TilePiece> pieces;
  for (size_t i = 0; i < steps.size(); ++i) {
    const auto deep = static_cast<int32_t>(i / kDeepSteps), lane = static_cast<int32_t>(i % kDeepSteps);
    if (lane != 0 && steps[i] == steps[i - 1] + 4) {
      ++pieces.back().steps;
    } else {
      pieces.push_back({steps[i], deep * static_cast<int32_t>(kGatheredBytes) + 4 * lane, 1});
    }
  }
  return pieces;
}

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
