// The steps of a window in the form that tile kernels read. For conv_tiles.cc alone.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <vector>

#include "kernels/gemm/tiles.h"
#include "steps/conv.h"
#include "steps/conv/tile_work.h"

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

// The weights of all panels with zeros where a run of steps ends within a deep step. There the image holds
// bytes that are not part of the window.
struct PaddedWeights {
  PaddedWeights(const DeepSteps& steps, const Packed& packed) {
    int64_t all = 0;
    for (const PackedPanel& panel : packed.panels) all += steps.bytes_of(panel.width);
    bytes.reset(static_cast<int8_t*>(::operator new[](static_cast<size_t>(all), Aligned::kBytes)));
    std::fill_n(bytes.get(), all, int8_t{0});
    int8_t* to = bytes.get();
    for (const PackedPanel& panel : packed.panels) {
      const auto step = static_cast<size_t>(panel.width) * 4;
      for (size_t i = 0; i < steps.places.size(); ++i) {
        std::memcpy(to + static_cast<size_t>(steps.places[i]) * step,
                    packed.weights + panel.weights + i * step, step);
      }
      to += steps.bytes_of(panel.width);
    }
  }

  std::unique_ptr<int8_t[], Aligned> bytes;
};

// What tiles of a layer read for images of one pitch, whatever their sizes: the window's steps as they lie in
// the image, and as a gather copies them.
struct TileSteps {
  explicit TileSteps(const std::vector<int32_t>& steps) : deep(steps), pieces(pieces_of(steps)) {
    for (size_t k = 0; k < (steps.size() + kDeepSteps - 1) / kDeepSteps; ++k) {
      gathered.push_back(static_cast<int32_t>(k) * static_cast<int32_t>(kGatheredBytes));
    }
  }

  DeepSteps deep;
  std::vector<TilePiece> pieces;
  std::vector<int32_t> gathered;         // offset of each deep step from its row
  LastMade<bool, PaddedWeights> padded;  // one, made when it is first wanted
};

}  // namespace intact::conv_tiles
