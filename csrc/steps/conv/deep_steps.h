// The steps of a window in the form that tile kernels read. For conv_tiles.cc alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/gemm/tiles.h"

namespace intact::conv_tiles {

// The steps of a window as deep steps. Each run of neighbouring steps begins with a deep step of its own.
struct DeepSteps {
  std::vector<int32_t> starts;  // offset of each deep step from a row
  std::vector<int32_t> places;  // the number of each step, counting the unused ones of each deep step

  explicit DeepSteps(const std::vector<int32_t>& steps) {
    int32_t place = -1;
    for (size_t i = 0; i < steps.size(); ++i) {
      const bool goes_on = i > 0 && steps[i] == steps[i - 1] + 4;
      place = goes_on ? place + 1 : static_cast<int32_t>(starts.size()) * kDeepSteps;
      if (place % kDeepSteps == 0) starts.push_back(steps[i]);
      places.push_back(place);
    }
  }

  // Returns whether all deep steps but the last are full, so that weights need no zeros in between.
  bool is_full() const { return places.empty() || places.back() + 1 == static_cast<int32_t>(places.size()); }
  // Bytes that the last deep step reads behind the last step.
  size_t idle() const {
    return places.empty() ? 0 : (starts.size() * kDeepSteps - static_cast<size_t>(places.back()) - 1) * 4;
  }
  int64_t bytes_of(int32_t width) const {
    return static_cast<int64_t>(starts.size()) * kDeepSteps * width * 4;
  }
};

// The pieces that a gather copies: neighbouring steps of one deep step together.
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
