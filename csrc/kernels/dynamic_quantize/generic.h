// The loops of the family, for every register width (base/vector/vector.h).
#pragma once

#include <cstring>

#include "base/vector/vector.h"
#include "kernels/dynamic_quantize/ranges.h"

namespace intact::dynamic_quantize_loops {

using vec::F;
using vec::I;

template <class V>
INTACT_INLINE void int8_by(const float* x, size_t n, float scale, int8_t* codes) {
  if (!(scale == scale)) {
    std::memset(codes, 0, n);
    return;
  }
  const F<V> divisor = V::set(scale), low = V::set(-127.0f), high = V::set(127.0f);
  vec::for_each<V>(n, [&](size_t i, size_t size) INTACT_INLINE_BODY {
    const F<V> steps = V::round(vec::load<V>(x + i, size) / divisor);
    const I<V> inside = V::to_int(vec::bounded<V>(steps, low, high));
    vec::store_u8<V>(reinterpret_cast<uint8_t*>(codes) + i, inside, size);
  });
}

template <class V>
INTACT_INLINE void uint8_by(const float* x, size_t n, float scale, uint8_t zero, uint8_t* codes) {
  if (!(scale == scale)) {
    std::memset(codes, zero, n);
    return;
  }
  const F<V> divisor = V::set(scale), low = V::set(-static_cast<float>(zero)),
             high = V::set(static_cast<float>(255 - zero));
  const I<V> shift = V::set_int(zero);
  vec::for_each<V>(n, [&](size_t i, size_t size) INTACT_INLINE_BODY {
    const F<V> steps = V::round(vec::load<V>(x + i, size) / divisor);
    const I<V> inside = V::to_int(vec::bounded<V>(steps, low, high));
    vec::store_u8<V>(codes + i, V::add_int(inside, shift), size);
  });
}

// The largest magnitude, or a NaN: without their signs, floats have the order of their bits.
template <class V>
INTACT_INLINE float largest(const float* x, size_t n) {
  I<V> top = V::set_int(0);
  vec::for_each<V>(n, [&](size_t i, size_t size) INTACT_INLINE_BODY {
    top = V::larger_int(top, V::bits(V::abs(vec::load<V>(x + i, size))));
  });
  const int32_t bits = V::largest_int_of(top);
  float found;
  std::memcpy(&found, &bits, sizeof found);
  return found;
}

template <class V>
void int8_blocks(const float* x, size_t n, size_t block, int8_t* codes, float* scales) {
  for (size_t from = 0; from < n; from += block, ++scales) {
    const size_t size = n - from < block ? n - from : block;
    *scales = int8_scale(largest<V>(x + from, size));
    int8_by<V>(x + from, size, *scales, codes + from);
  }
}

template <class V>
void uint8_blocks(const float* x, size_t n, size_t block, uint8_t* codes, float* scales, uint8_t* zeros) {
  for (size_t from = 0; from < n; from += block, ++scales, ++zeros) {
    const size_t size = n - from < block ? n - from : block;
    F<V> smallest = V::set(0.0f), greatest = smallest;
    vec::for_each<V>(size, [&](size_t i, size_t part) INTACT_INLINE_BODY {
      const F<V> values = vec::load<V>(x + from + i, part);
      smallest = V::smaller(values, smallest);
      greatest = V::larger(values, greatest);
    });
    const float low = V::smallest_of(smallest), high = V::largest_of(greatest);
    const float whole = largest<V>(x + from, size);
    *scales = whole == whole ? uint8_scale(low, high) : whole;
    *zeros = uint8_zero(low, *scales);
    uint8_by<V>(x + from, size, *scales, *zeros, codes + from);
  }
}

template <class V>
void int8_call(const float* x, size_t n, float scale, int8_t* codes) {
  int8_by<V>(x, n, scale, codes);
}
template <class V>
void uint8_call(const float* x, size_t n, float scale, uint8_t zero, uint8_t* codes) {
  uint8_by<V>(x, n, scale, zero, codes);
}

template <class V>
constexpr DynamicQuantizeOps ops_of() {
  return {int8_blocks<V>, uint8_blocks<V>, int8_call<V>, uint8_call<V>};
}

}  // namespace intact::dynamic_quantize_loops
