// The loops of the family, once for every register (base/vector/vector.h); the tail is the reference.
#pragma once

#include "base/vector/vector.h"
#include "kernels/convert/convert.h"

namespace intact::convert_loops {

// `vector` on whole registers, `rest` on what is left.
template <class V, class X, class Y, class Vector>
INTACT_INLINE void convert(const X* x, size_t n, Y* y, const Vector& vector,
                           void (*rest)(const X*, size_t, Y*)) {
  size_t i = 0;
  for (; i + V::kWidth <= n; i += V::kWidth) vector(x + i, y + i);
  if (i < n) rest(x + i, n - i, y + i);
}

template <class V>
void from_f16(const uint16_t* x, size_t n, float* y) {
  const auto some = [](const uint16_t* from, float* to)
                        INTACT_INLINE_BODY { V::store(to, V::from_f16(from)); };
  convert<V>(x, n, y, some, convert_ref.from_f16);
}

template <class V>
void to_f16(const float* x, size_t n, uint16_t* y) {
  const auto some = [](const float* from, uint16_t* to) INTACT_INLINE_BODY { V::to_f16(to, V::load(from)); };
  convert<V>(x, n, y, some, convert_ref.to_f16);
}

template <class V>
void from_bf16(const uint16_t* x, size_t n, float* y) {
  const auto some = [](const uint16_t* from, float* to) INTACT_INLINE_BODY {
    V::store_int(to, V::template shift_left<16>(V::load_u16(from)));
  };
  convert<V>(x, n, y, some, convert_ref.from_bf16);
}

template <class V>
void to_bf16(const float* x, size_t n, uint16_t* y) {
  const auto some = [](const float* from, uint16_t* to) INTACT_INLINE_BODY {
    const auto v = V::load(from);
    const auto bits = V::bits(v);
    const auto odd = V::and_int(V::template shift_right<16>(bits), V::set_int(1));
    const auto rounded = V::add_int(bits, V::add_int(odd, V::set_int(0x7fff)));
    const auto quiet = V::or_int(bits, V::set_int(0x400000));
    V::store_u16(to, V::template shift_right<16>(V::select(V::is_nan(v), quiet, rounded)));
  };
  convert<V>(x, n, y, some, convert_ref.to_bf16);
}

template <class V>
void from_f64(const double* x, size_t n, float* y) {
  const auto some = [](const double* from, float* to) INTACT_INLINE_BODY { V::store(to, V::from_f64(from)); };
  convert<V>(x, n, y, some, convert_ref.from_f64);
}

template <class V>
void to_f64(const float* x, size_t n, double* y) {
  const auto some = [](const float* from, double* to) INTACT_INLINE_BODY { V::to_f64(to, V::load(from)); };
  convert<V>(x, n, y, some, convert_ref.to_f64);
}

template <class V>
constexpr ConvertOps ops_of() {
  return {from_f16<V>, from_bf16<V>, from_f64<V>, to_f16<V>, to_bf16<V>, to_f64<V>};
}

}  // namespace intact::convert_loops
