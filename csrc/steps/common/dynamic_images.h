// Images of codes whose scale and zero point a run says, under windows that make images of floats (N73).
#pragma once

#include <array>
#include <optional>

#include "runtime/step.h"
#include "steps/common/views.h"

namespace intact {

struct DynamicImages {
  View x;  // i8 or u8 [n, h, w, c], channels side by side
  View x_scale;  // f32 [1]
  std::optional<View> x_zero;  // u8 [1], where x is u8; none: 0
  View y;  // f32 [n, h, w, c], channels side by side
  std::array<int64_t, 2> kernel, strides, dilations;
  std::array<int64_t, 4> pads;  // (top, left, bottom, right); they read the zero point
};

constexpr int64_t kMostHop = int64_t{1} << 24, kMostWindow = int64_t{1} << 16;

inline void demand_taps(const DynamicImages& s) {
  for (const int64_t taps : s.kernel) demand(0 < taps && taps <= kMostWindow, "a window has taps");
}

// Throws std::invalid_argument where addresses of pixels would be none of the images'.
inline void demand_images(const DynamicImages& s) {
  const View &x = s.x, &y = s.y;
  demand(x.rank == 4 && y.rank == 4 && x.sizes[0] == y.sizes[0], "images make as many images");
  demand((x.type == Type::i8 || x.type == Type::u8) && y.type == Type::f32, "codes make floats");
  elements_of(x);
  elements_of(y);
  demand((x.sizes[3] < 2 || x.strides[3] == 1) && (y.sizes[3] < 2 || y.strides[3] == 4),
         "channels lie side by side");
  for (int i = 0; i < 3; ++i) {
    demand(y.strides[i] % 4 == 0 && y.strides[i] >= 0 && y.offset % 4 == 0, "pixels are floats");
  }
  demand_vector(s.x_scale, Type::f32, 1, "a scale for all of x");
  demand(!s.x_zero || x.type == Type::u8, "zero points of codes without a sign");
  if (s.x_zero) demand_vector(*s.x_zero, Type::u8, 1, "a zero point for all of x");
  demand_taps(s);
  for (size_t i = 0; i < 2; ++i) {
    const int64_t stride = s.strides[i], dilation = s.dilations[i], size = x.sizes[i + 1];
    demand(0 < stride && stride <= kMostHop && 0 < dilation && dilation <= kMostHop, "hops of windows");
    demand(0 <= s.pads[i] && s.pads[i] <= kMostWindow && size < kMostElements, "pads of windows");
    const int64_t last = (y.sizes[i + 1] - 1) * stride + (s.kernel[i] - 1) * dilation - s.pads[i];
    demand(y.sizes[i + 1] < kMostElements && last < size + kMostWindow, "windows reach beyond their pads");
  }
}

}  // namespace intact
