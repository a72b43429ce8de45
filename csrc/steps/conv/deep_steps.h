// A window's steps as tiles read them. For conv_tiles.cc alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/gemm/tiles.h"

namespace intact::conv_tiles {

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

}  // namespace intact::conv_tiles
