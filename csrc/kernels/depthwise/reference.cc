// The meaning of the family, in the fewest lines. Packed: correction, M, B, G, H, then weights as given.
#include "kernels/depthwise/depthwise.h"

#include <algorithm>
#include <cstring>

namespace intact {
namespace {

size_t packed_bytes(const DepthwiseWeights& w) {
  return static_cast<size_t>(w.channels) * (20 + static_cast<size_t>(w.kernel_h) * w.kernel_w);
}

void pack(const DepthwiseWeights& w, uint8_t* packed) {
  const size_t words = static_cast<size_t>(w.channels) * 4;
  std::memcpy(packed, w.correction, words);
  std::memcpy(packed + words, w.multiplier, words);
  std::memcpy(packed + 2 * words, w.bias, words);
  if (w.gains != nullptr) {
    std::memcpy(packed + 3 * words, w.gains, words);
    std::memcpy(packed + 4 * words, w.shifts, words);
  }
  std::memcpy(packed + 5 * words, w.weight, static_cast<size_t>(w.kernel_h) * w.kernel_w * w.channels);
}

uint32_t sum(const DepthwiseRow& d, const uint8_t* x, const int8_t* w) {
  uint32_t acc = 0;
  for (int i = 0; i < d.kernel_h; ++i) {
    for (int j = 0; j < d.kernel_w; ++j, w += d.channels) {
      acc += static_cast<uint32_t>(x[i * d.x_row + j * d.x_column] * *w);
    }
  }
  return acc;
}

void finish(const Epilogue& e, float v, const uint8_t* residual, uint8_t* y, int channel) {
  if (residual != nullptr) {
    v = v + static_cast<float>(residual[channel] - e.residual_zero_point) * e.residual_multiplier;
  }
  if (!e.floats) {
    y[channel] = to_byte(e.divides ? v / e.scale : v, e.grid());
    return;
  }
  v = std::min(std::max(v, e.real_low), e.real_high);
  std::memcpy(y + 4 * static_cast<size_t>(channel), &v, 4);
}

void run(const DepthwiseRow& d) {
  const auto* correction = reinterpret_cast<const int32_t*>(d.packed);
  const auto* multiplier = reinterpret_cast<const float*>(correction + d.channels);
  const float* bias = multiplier + d.channels;
  const float *gains = bias + d.channels, *shifts = gains + d.channels;
  const auto* weight = reinterpret_cast<const int8_t*>(shifts + d.channels);
  for (size_t p = 0; p < d.pixels; ++p) {
    const auto at = static_cast<ptrdiff_t>(p);
    const uint8_t* residual = d.residual == nullptr ? nullptr : d.residual + at * d.residual_pixel;
    for (auto c = static_cast<int>(d.begin); c < static_cast<int>(d.end); ++c) {
      const uint8_t* const x = d.x + at * d.x_pixel + c;
      uint32_t acc = sum(d, x, weight + c);
      if (d.joins) acc = 256 * acc + sum(d, x + d.apart, weight + c);
      acc += static_cast<uint32_t>(correction[c]);
      float v = static_cast<float>(static_cast<int32_t>(acc)) * multiplier[c] + bias[c];
      if (d.epilogue.has_gain) v = v * gains[c];
      if (d.epilogue.has_gain) v = v + shifts[c];
      finish(d.epilogue, v, residual, d.y + at * d.y_pixel, c);
    }
  }
}

}  // namespace

const DepthwiseOps depthwise_ref = {1, 0, packed_bytes, pack, run};

}  // namespace intact
