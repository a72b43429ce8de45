// A register of channels of some pixels, for every register width (base/vector/vector.h).
#pragma once

#include "base/vector/vector.h"
#include "kernels/dynamic_depthwise/dynamic_depthwise.h"

namespace intact::dynamic_depthwise_loops {

using vec::F;
using vec::I;

// Products of numbers of 16 bits. A byte without a sign leaves the upper half 0, so that pairs of words sum
// nothing else; where both have a sign, the lower halves are sign-extended by the caller.
template <class V, bool kIsSigned>
INTACT_INLINE I<V> multiply(I<V> x, I<V> w) {
  if constexpr (kIsSigned) {
    return V::multiply_int(x, V::template shift_down<16>(V::template shift_left<16>(w)));
  } else if constexpr (requires {
                         V::pair_words(V::words_of(V::set_bytes(0)), V::words_of(V::set_bytes(0)));
                       }) {
    return V::pair_words(x, w);
  } else {
    return V::multiply_int(x, V::template shift_down<16>(V::template shift_left<16>(w)));
  }
}

// `n` channels from `channel` on, of kPixels pixels: weights are loaded once for them.
template <class V, bool kIsSigned, int kPixels>
INTACT_INLINE void channels_of(const DynamicDepthwise& d, size_t pixel, size_t channel, size_t n) {
  int32_t lanes[V::kWidth] = {};
  const auto load_ints = [&](const int32_t* from) INTACT_INLINE_BODY {
    if (n == V::kWidth) return V::load_int(from);
    for (size_t i = 0; i < n; ++i) lanes[i] = from[i];
    return V::load_int(lanes);
  };
  I<V> sums[kPixels];
  const I<V> first = load_ints(d.starts + channel);
  for (int p = 0; p < kPixels; ++p) sums[p] = first;
  for (size_t t = 0; t < d.taps; ++t) {
    const I<V> w = load_ints(d.weights + t * d.channels + channel);
    INTACT_UNROLL("GCC unroll 8")
    for (int p = 0; p < kPixels; ++p) {
      const uint8_t* const x = d.x[(pixel + static_cast<size_t>(p)) * d.taps + t] + channel;
      const I<V> codes = kIsSigned ? vec::load_s8<V>(x, n) : vec::load_u8<V>(x, n);
      sums[p] = V::add_int(sums[p], multiply<V, kIsSigned>(codes, w));
    }
  }
  const F<V> scale = vec::load<V>(d.scales + channel, n);
  for (int p = 0; p < kPixels; ++p) {
    F<V> y = V::set(0.0f) + V::to_float(sums[p]) * scale;
    if (d.bias != nullptr) y = y + vec::load<V>(d.bias + channel, n);
    vec::store<V>(d.y[pixel + static_cast<size_t>(p)] + channel, y, n);
  }
}

template <class V, bool kIsSigned>
void run(const DynamicDepthwise& d) {
  constexpr size_t kTogether = 8;
  size_t pixel = 0;
  for (; pixel + kTogether <= d.pixels; pixel += kTogether) {
    vec::for_each<V>(d.channels, [&](size_t c, size_t n) INTACT_INLINE_BODY {
      channels_of<V, kIsSigned, kTogether>(d, pixel, c, n);
    });
  }
  for (; pixel < d.pixels; ++pixel) {
    vec::for_each<V>(d.channels, [&](size_t c, size_t n)
                                     INTACT_INLINE_BODY { channels_of<V, kIsSigned, 1>(d, pixel, c, n); });
  }
}

template <class V>
constexpr DynamicDepthwiseOps ops_of() {
  return {run<V, false>, run<V, true>};
}

}  // namespace intact::dynamic_depthwise_loops
