// Tensors of reals: float32, or codes that steps dequantize when they read and quantize when they write
// (N12, N11).
#pragma once

#include <cmath>
#include <cstdint>

#include "base/byte_grid.h"
#include "steps/common/views.h"

namespace intact {

// A tensor of float32; or of bytes, which mean (byte - zero) * scale.
struct RealIn {
  View view;
  int32_t zero = 0;
  float scale = 1.0f;
};

struct RealOut {
  View view;
  float scale = 1.0f;
  ByteGrid grid{0, 0, 255};
};

inline void demand_real(const View& v, float scale, const char* what) {
  demand(v.type == Type::f32 || v.type == Type::u8, what);
  demand(v.type == Type::f32 || (std::isfinite(scale) && scale > 0), "a scale is not positive");
}
inline void demand_real(const RealIn& x) {
  demand_real(x.view, x.scale, "floats are float32 or bytes");
  demand(-kMostZero < x.zero && x.zero < kMostZero, "a zero point is out of range");
}
inline void demand_real(const RealOut& y) {
  demand_real(y.view, y.scale, "floats are float32 or bytes");
  demand(is_sound(y.grid), "the output's grid is not within bytes");
}

}  // namespace intact
