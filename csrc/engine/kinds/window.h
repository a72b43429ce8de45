// What convolutions and pools say about their windows.
#pragma once

#include <array>

#include "engine/sizes.h"

namespace intact::engine {

// How many windows there are along an axis of `size`; none where a window is larger than the padded input.
inline std::optional<int64_t> positions(int64_t size, int64_t taps, int64_t stride, int64_t before,
                                        int64_t after, bool ceil_mode = false) {
  const int64_t room = size + before + after - taps;
  if (room + (ceil_mode ? stride - 1 : 0) < 0) return std::nullopt;
  int64_t count = (room + (ceil_mode ? stride - 1 : 0)) / stride + 1;
  if (ceil_mode && (count - 1) * stride >= size + before) --count;
  return count < 1 ? std::nullopt : std::optional(count);
}

// Height and width of what windows of a kernel make of the image `x` [n, c, h, w].
inline std::array<int64_t, 2> window_positions(const Sizes& sizes, int x,
                                               const std::array<int64_t, 2>& kernel,
                                               const std::array<int64_t, 2>& strides,
                                               const std::array<int64_t, 2>& dilations,
                                               const std::array<int64_t, 4>& pads, bool ceil_mode = false) {
  std::array<int64_t, 2> found{};
  for (size_t i = 0; i < 2; ++i) {
    const int64_t taps = (kernel[i] - 1) * dilations[i] + 1;
    const int64_t size = sizes.of(x)[static_cast<int>(i) + 2];
    const auto count = positions(size, taps, strides[i], pads[i], pads[i + 2], ceil_mode);
    if (!count) {
      sizes.mismatch(x, std::to_string(taps) + " taps for a size of " + std::to_string(size),
                     "a window no larger than the padded input");
    }
    found[i] = *count;
  }
  return found;
}

}  // namespace intact::engine
