// float16 as bits, in integer arithmetic: C++20 has no type for it.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace intact {

inline float half_to_float(uint16_t h) {
  const uint32_t sign = static_cast<uint32_t>(h & 0x8000u) << 16;
  const uint32_t exponent = (h >> 10) & 0x1f, mantissa = h & 0x3ffu;
  if (exponent == 0) {  // zero or denormal: mantissa * 2^-24, exact
    const float size = static_cast<float>(mantissa) * 5.9604644775390625e-8f;
    return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(size));
  }
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000u | mantissa << 13);
  return std::bit_cast<float>(sign | (exponent + 112) << 23 | mantissa << 13);
}

// Rounds to nearest even; a NaN loses its payload.
inline uint16_t float_to_half(float x) {
  const auto bits = std::bit_cast<uint32_t>(x);
  const uint32_t sign = (bits >> 16) & 0x8000u, size = bits & 0x7fffffffu;
  if (size > 0x7f800000u) return static_cast<uint16_t>(sign | 0x7e00u);
  if (size >= 0x477ff000u) return static_cast<uint16_t>(sign | 0x7c00u);  // 65520 and above round up
  if (size < 0x38800000u) {                                               // below 2^-14: denormal
    const float steps = std::nearbyint(std::bit_cast<float>(size) * 16777216.0f);
    return static_cast<uint16_t>(sign | static_cast<uint32_t>(steps));
  }
  const uint32_t rounded = size + 0xfffu + ((size >> 13) & 1u);
  return static_cast<uint16_t>(sign | (rounded - 0x38000000u) >> 13);
}

}  // namespace intact
