// The loops of the family, once for every register (base/vector/vector.h). Where one scale serves all, few
// elements are divided (vec::Quotients).
#pragma once

#include "base/vector/vector.h"
#include "kernels/quantize/quantize.h"

namespace intact::quantize_loops {

using vec::F;
using vec::I;

constexpr float kMostSteps = 1024;

// Bounds are whole numbers: steps within them round to integers within them. A NaN gives the low end, hence
// qmin.
template <class V>
void divide(const float* x, size_t n, const Grid& grid, Codes codes, uint8_t* q) {
  const I<V> qmin = V::set_int(codes.qmin);
  const bool shared = grid.shared;
  const F<V> step = V::set(shared ? *grid.scale : 1.0f);
  const F<V> least = V::set(shared ? *grid.low : 0.0f), most = V::set(shared ? *grid.high : 0.0f);
  vec::for_each<V>(n, [&](size_t i, size_t k) INTACT_INLINE_BODY {
    const F<V> scale = shared ? step : vec::load<V>(grid.scale + i, k, 1.0f);
    const F<V> low = shared ? least : vec::load<V>(grid.low + i, k);
    const F<V> high = shared ? most : vec::load<V>(grid.high + i, k);
    const F<V> steps = vec::bounded<V>(vec::load<V>(x + i, k) / scale, low, high);
    vec::store_u8<V>(q + i, V::add_int(V::sub_int(V::to_int(steps), V::to_int(low)), qmin), k);
  });
}

template <class V>
void quantize(const float* x, size_t n, const Grid& grid, Codes codes, uint8_t* q) {
  const bool plain = grid.shared && *grid.low >= -kMostSteps && *grid.high <= kMostSteps;
  if (!plain) return divide<V>(x, n, grid, codes, q);
  const auto low = static_cast<int32_t>(*grid.low), high = static_cast<int32_t>(*grid.high);
  const vec::Quotients<V> quotients(*grid.scale, low, high, codes.qmin - low);
  vec::for_each<V>(n, [&](size_t i, size_t k) INTACT_INLINE_BODY {
    vec::store_u8<V>(q + i, quotients.of(vec::load<V>(x + i, k)), k);
  });
}

template <class V>
void split(const float* x, size_t n, const Grid& grid, uint8_t* above, uint8_t* below) {
  const F<V> scale = V::set(*grid.scale), low = V::set(*grid.low), high = V::set(*grid.high);
  const I<V> least = V::to_int(low);
  vec::for_each<V>(n, [&](size_t i, size_t k) INTACT_INLINE_BODY {
    const F<V> steps = vec::bounded<V>(vec::load<V>(x + i, k) / scale, low, high);
    const I<V> code = V::sub_int(V::to_int(steps), least);
    vec::store_u8<V>(above + i, V::template shift_right<8>(code), k);
    vec::store_u8<V>(below + i, code, k);
  });
}

template <class V, bool kSigned, bool kShared>
void dequantize_as(const uint8_t* q, size_t n, const Grid& grid, int32_t qmin, float* y) {
  const I<V> least = V::set_int(qmin);
  const F<V> one_low = V::set(kShared ? *grid.low : 0.0f), one_scale = V::set(kShared ? *grid.scale : 1.0f);
  vec::for_each<V>(n, [&](size_t i, size_t k) INTACT_INLINE_BODY {
    const I<V> code = kSigned ? vec::load_s8<V>(q + i, k) : vec::load_u8<V>(q + i, k);
    const F<V> low = kShared ? one_low : vec::load<V>(grid.low + i, k);
    const F<V> scale = kShared ? one_scale : vec::load<V>(grid.scale + i, k);
    vec::store<V>(y + i, (V::to_float(V::sub_int(code, least)) + low) * scale, k);
  });
}

template <class V>
void dequantize(const uint8_t* q, size_t n, const Grid& grid, Codes codes, float* y) {
  const auto form = codes.is_signed
                        ? (grid.shared ? dequantize_as<V, true, true> : dequantize_as<V, true, false>)
                        : (grid.shared ? dequantize_as<V, false, true> : dequantize_as<V, false, false>);
  form(q, n, grid, codes.qmin, y);
}

template <class V>
constexpr QuantizeOps ops_of() {
  return {quantize<V>, dequantize<V>, split<V>};
}

}  // namespace intact::quantize_loops
