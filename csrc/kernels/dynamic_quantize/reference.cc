// The meaning of the family, in the fewest lines.
#include <algorithm>
#include <cmath>

#include "kernels/dynamic_quantize/ranges.h"

namespace intact {
namespace {

// To nearest even; 0 where the scale is a NaN.
int steps(float x, float scale, int low, int high) {
  if (!(scale == scale)) return 0;
  return std::clamp(static_cast<int>(std::nearbyint(x / scale)), low, high);
}

void int8_by(const float* x, size_t n, float scale, int8_t* codes) {
  for (size_t i = 0; i < n; ++i) codes[i] = static_cast<int8_t>(steps(x[i], scale, -127, 127));
}

void uint8_by(const float* x, size_t n, float scale, uint8_t zero, uint8_t* codes) {
  for (size_t i = 0; i < n; ++i)
    codes[i] = static_cast<uint8_t>(steps(x[i], scale, -zero, 255 - zero) + zero);
}

// Smallest and largest number, 0 among them; NaN where one is none.
void range(const float* x, size_t n, float& low, float& high) {
  low = high = 0.0f;
  for (size_t i = 0; i < n; ++i) {
    if (!(x[i] == x[i])) low = high = x[i];
    low = std::min(low, x[i]);
    high = std::max(high, x[i]);
  }
}

template <class Each>
void blocks(size_t n, size_t block, const Each& each) {
  for (size_t from = 0, i = 0; from < n; from += block, ++i) each(i, from, std::min(block, n - from));
}

void int8_blocks(const float* x, size_t n, size_t block, int8_t* codes, float* scales) {
  blocks(n, block, [&](size_t i, size_t from, size_t size) {
    float low, high;
    range(x + from, size, low, high);
    scales[i] = int8_scale(std::max(-low, high));
    int8_by(x + from, size, scales[i], codes + from);
  });
}

void uint8_blocks(const float* x, size_t n, size_t block, uint8_t* codes, float* scales, uint8_t* zeros) {
  blocks(n, block, [&](size_t i, size_t from, size_t size) {
    float low, high;
    range(x + from, size, low, high);
    scales[i] = uint8_scale(low, high);
    zeros[i] = uint8_zero(low, scales[i]);
    uint8_by(x + from, size, scales[i], zeros[i], codes + from);
  });
}

}  // namespace

const DynamicQuantizeOps dynamic_quantize_ref = {int8_blocks, uint8_blocks, int8_by, uint8_by};

}  // namespace intact
