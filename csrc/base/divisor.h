// Division by the scale of an output as a product: N11's `rne(x / scale)` for every x, without dividing.
//
//   quotient = fma(x, high, x * low),   high = fl32(1 / scale),   low = fl32(1 / scale - high)
//
// The pair is the inverse to 48 bits, so that the quotient is off by at most one unit in its last place, and
// hardly ever: codes can differ only where x lies within a few units in the last place of a boundary between
// two codes. These x are all tried when a step is made (`divisor_of`), against a division.
#pragma once

#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <limits>

namespace intact {

struct Divisor {
  float scale = 1, high = 1, low = 0;
  bool exact = true;  // the pair gives a division's codes; kernels divide where it does not
};

// Returns whether both forms round every x alike whose quotient lies in [least - 1, most + 1].
inline bool gives_codes(const Divisor& d, int32_t least, int32_t most) {
  constexpr int kUnits = 4;  // in the last place, on each side of a boundary
  constexpr float kEnd = std::numeric_limits<float>::infinity();
  for (int32_t step = least - 1; step <= most; ++step) {
    auto x = static_cast<float>((step + 0.5) * double{d.scale});
    for (int i = 0; i < kUnits; ++i) x = std::nextafter(x, -kEnd);
    for (int i = -kUnits; i <= kUnits; ++i, x = std::nextafter(x, kEnd)) {
      if (std::nearbyint(std::fma(x, d.high, x * d.low)) != std::nearbyint(x / d.scale)) return false;
    }
  }
  return true;
}

// For codes in [least, most], relative to the zero point.
inline Divisor divisor_of(float scale, int32_t least, int32_t most) {
  Divisor d;
  d.scale = scale;
  d.high = static_cast<float>(1.0 / double{scale});
  const auto low = static_cast<float>(1.0 / double{scale} - double{d.high});
  // One x in 10^4 scales lies so close to the middle of two floats that the next `low` is needed.
  for (const float towards : {low, 2 * low, 0.0f}) {
    d.low = std::nextafter(low, towards);
    if (std::isfinite(d.high) && gives_codes(d, least, most)) return d;
  }
  d.exact = false;
  return d;
}

}  // namespace intact
