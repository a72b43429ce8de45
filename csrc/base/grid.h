// The division of a tensor into granules, and the parameters of each granule.
#pragma once

#include <cstddef>
#include <cstdint>

namespace intact {

// A dense tensor seen as [groups, outer, channels, inner]; element (g, o, c, i) belongs to granule
// g * channels + c. Per-tensor: {1, 1, 1, size}; per-channel on axis 1 of NCHW: {1, N, C, H * W};
// on the last axis inner is 1; blocks along any axis and two separate axes fit as well.
struct Layout {
  size_t groups, outer, channels, inner;
  size_t size() const { return groups * outer * channels * inner; }
  size_t granules() const { return groups * channels; }
  size_t period() const { return channels * inner; }
  // Granule of row r, a row being `inner` neighbouring elements.
  size_t granule_of_row(size_t r) const { return r / (outer * channels) * channels + r % channels; }
};

// Quantization parameters in the form that every loop uses. `low` and `high` are qmin - zero_point
// and qmax - zero_point (for the gradient: the ends of the range that passes), exact in float.
// shared: one value for all elements; otherwise one value per element.
struct Grid {
  const float* scale;
  const float* low;
  const float* high;
  bool shared;
};

}  // namespace intact
