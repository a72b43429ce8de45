// How transposed convolutions lay their windows: a convolution for each phase of the strides.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "engine/checker.h"
#include "engine/fields.h"
#include "engine/sizes.h"
#include "runtime/view.h"

namespace intact::engine {

struct TransposedWindow {
  explicit TransposedWindow(Fields& fields);
  // [n, out, height, width] of what it makes of x. Throws Failure where its pads leave nothing.
  Shape output_shape(const Sizes& sizes, int x, const Shape& weight) const;
  // How far outputs reach beyond the input, whatever its size.
  Halo halo(const Shape& weight) const;

  Pair strides, dilations;
  std::array<int64_t, 4> pads;
  Pair output_padding;
  int64_t groups;
};

// Along one axis, every stride-th output: a convolution of stride 1.
struct Phase {
  int64_t first = 0;          // the first of these outputs
  std::vector<int64_t> taps;  // that reach them, in the order of the inputs that they read; may be empty
  int64_t origin = 0;         // the input under the first of these taps at output `first`
  int64_t dilation = 1;       // from tap to tap, in inputs
};
std::vector<Phase> phases_of(int64_t taps, int64_t stride, int64_t dilation, int64_t pad);

// Phases down, and phases across, whose outputs may be neighbours, as if they were channels of one pixel.
struct PhaseBlock {
  const Phase* down;
  std::vector<const Phase*> across;
  std::string label;  // of the taps
};
// `images` are what is written, and read beside.
std::vector<PhaseBlock> phase_blocks(const std::vector<Phase>& down, const std::vector<Phase>& across,
                                     int64_t groups, const std::vector<const View*>& images);

// Every stride-th pixel of an image (n, h, w, c), from `first` on, each with its next ones as further
// channels.
View every_pixel(const View& image, const Pair& first, const Pair& strides, int64_t number);

// Of weights [out, kernel_h, kernel_w, in] the taps of a block: [out * across, down, across taps, in].
template <class T>
std::vector<T> taps_of(const T* weight, const Shape& shape, const PhaseBlock& block) {
  std::vector<T> found;
  const auto depth = static_cast<size_t>(shape[3]);
  for (const Phase* across : block.across) {
    for (int64_t o = 0; o < shape[0]; ++o) {
      for (const int64_t h : block.down->taps) {
        for (const int64_t w : across->taps) {
          const T* const at = weight + static_cast<size_t>((o * shape[1] + h) * shape[2] + w) * depth;
          found.insert(found.end(), at, at + depth);
        }
      }
    }
  }
  return found;
}

}  // namespace intact::engine
