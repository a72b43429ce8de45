// The last line of every integer layer: floats in steps of the output's scale become bytes.
#pragma once

#include <cmath>
#include <cstdint>

namespace intact {

// byte = clamp(rne(steps) + zero, low, high), with 0 <= low <= high <= 255. zero may lie outside.
struct ByteGrid {
  int32_t zero, low, high;
};

// Rounding after the clamp gives the same: the bounds are whole numbers, exact in float.
inline uint8_t to_byte(float steps, const ByteGrid& g) {
  const float low = static_cast<float>(g.low - g.zero), high = static_cast<float>(g.high - g.zero);
  if (!(steps > low)) steps = low;
  if (steps > high) steps = high;
  return static_cast<uint8_t>(static_cast<int32_t>(std::nearbyint(steps)) + g.zero);
}

constexpr int32_t kMostZero = 1 << 12;  // of |zero|: far beyond any byte, and exact in 16 bits

constexpr bool is_sound(const ByteGrid& g) {
  return 0 <= g.low && g.low <= g.high && g.high <= 255 && -kMostZero < g.zero && g.zero < kMostZero;
}

}  // namespace intact
