// Scales and zero points of ranges, the same for every instruction set.
#pragma once

#include <cmath>
#include <limits>

#include "base/inline.h"
#include "kernels/dynamic_quantize/dynamic_quantize.h"

namespace intact {
namespace {

// Of a NaN or an infinity; one below 2^-126 is 1.
INTACT_INLINE float usable_scale(float range, float steps) {
  if (!(std::fabs(range) <= std::numeric_limits<float>::max()))
    return std::numeric_limits<float>::quiet_NaN();
  const float scale = range / steps;
  return scale < 0x1p-126f ? 1.0f : scale;
}

INTACT_INLINE float int8_scale(float largest) { return usable_scale(largest, 127.0f); }
INTACT_INLINE float uint8_scale(float low, float high) { return usable_scale(high - low, 255.0f); }
// A quotient between 0 and 255, to nearest even.
INTACT_INLINE uint8_t uint8_zero(float low, float scale) {
  const float zero = -low / scale;
  if (!(zero > 0.0f)) return 0;
  const float nearest = (zero + 0x1.8p23f) - 0x1.8p23f;
  return static_cast<uint8_t>(nearest < 255.0f ? nearest : 255.0f);
}

}  // namespace
}  // namespace intact
