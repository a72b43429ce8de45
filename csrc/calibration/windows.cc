#include "calibration/windows.h"

#include <algorithm>

namespace intact {
namespace {

size_t pixels_of(const std::vector<WindowAxis>& axes) {
  size_t pixels = 1;
  for (const WindowAxis& axis : axes) pixels *= axis.size;
  return pixels;
}

// The first axis of `from` [axis.size, inner] becomes the last of `to` [inner, taps].
void sum_along(const WindowAxis& axis, size_t inner, const double* from, std::vector<double>& row,
               double* to) {
  const size_t taps = axis.taps.size();
  for (size_t t = 0; t < taps; ++t) {
    const Span& span = axis.taps[t];
    row.assign(inner, 0.0);
    for (size_t at = span.start; at < span.stop; at += span.step) {
      const double* source = from + at * inner;
      for (size_t i = 0; i < inner; ++i) row[i] += source[i];
    }
    for (size_t i = 0; i < inner; ++i) to[i * taps + t] = row[i];
  }
}

}  // namespace

void window_sums(const float* x, size_t samples, size_t channels, const std::vector<WindowAxis>& axes,
                 double* out) {
  const size_t pixels = pixels_of(axes);
  size_t most = pixels, left = pixels, taps = 1;
  for (const WindowAxis& axis : axes) {
    left /= axis.size;
    taps *= axis.taps.size();
    most = std::max(most, left * taps);
  }
  std::vector<double> from(most), to(most), row;
  for (size_t c = 0; c < channels; ++c) {
    for (size_t n = 0; n < samples; ++n) {
      const float* plane = x + (n * channels + c) * pixels;
      for (size_t i = 0; i < pixels; ++i) from[i] = n == 0 ? plane[i] : from[i] + plane[i];
    }
    size_t size = pixels;
    for (const WindowAxis& axis : axes) {
      const size_t inner = size / axis.size;
      sum_along(axis, inner, from.data(), row, to.data());
      size = inner * axis.taps.size();
      from.swap(to);
    }
    std::copy_n(from.data(), taps, out + c * taps);
  }
}

void gather_windows(const float* x, size_t pixels, size_t first, size_t groups, size_t channels,
                    const WindowPlaces& windows, float* out) {
  for (size_t g = 0; g < groups; ++g) {
    const float* group = x + (first + g * channels) * pixels;
    for (size_t p = 0; p < windows.places; ++p) {
      const int64_t* at = windows.at + p * windows.taps;
      for (size_t c = 0; c < channels; ++c) {
        const float* plane = group + c * pixels;
        for (size_t t = 0; t < windows.taps; ++t) *out++ = at[t] < 0 ? 0.0f : plane[at[t]];
      }
    }
  }
}

}  // namespace intact
