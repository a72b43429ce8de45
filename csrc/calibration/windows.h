// The factors of a convolution's weight elements: sums over all places, and values at some places.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace intact {

// Positions start, start + step, ... below stop along one axis.
struct Span {
  size_t start, stop, step;
};

// One axis of an image: its size, and what each tap of the kernel sees along it.
struct WindowAxis {
  size_t size;
  std::vector<Span> taps;
};

// Sums of what each tap sees, in double: out [channels, taps of the first axis, of the second, ...]. Dense x
// [samples, channels, sizes...]. Added in this order: samples, then positions along the first axis, then
// along the next one, each from the first to the last.
void window_sums(const float* x, size_t samples, size_t channels, const std::vector<WindowAxis>& axes,
                 double* out);

// Positions of windows in a dense x [samples, channels, pixels]: for each place and tap, the distance of a
// pixel of a sample's first channel from the start of x, or -1 for pixels outside, which are 0.
struct WindowPlaces {
  const int64_t* at;
  size_t places, taps;
};

// The windows of `groups` groups of `channels` channels each, from channel `first` on: out [groups, places,
// channels, taps].
void gather_windows(const float* x, size_t pixels, size_t first, size_t groups, size_t channels,
                    const WindowPlaces& windows, float* out);

}  // namespace intact
