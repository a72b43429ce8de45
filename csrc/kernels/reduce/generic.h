// The loops of the family, once for every register (base/vector/vector.h). Magnitudes compare as integers:
// the bits of |x| are ordered, NaN above infinity, so that one maximum also propagates NaN.
#pragma once

#include <bit>
#include <limits>

#include "base/vector/vector.h"
#include "kernels/reduce/reduce.h"

namespace intact::reduce_loops {

using vec::F;
using vec::I;

constexpr size_t kChains = 4;

template <class V>
INTACT_INLINE I<V> magnitude(F<V> x) {
  return V::and_int(V::bits(x), V::set_int(0x7fffffff));
}

template <class V>
float absmax(const float* x, size_t n) {
  I<V> top[kChains] = {V::set_int(0), V::set_int(0), V::set_int(0), V::set_int(0)};
  size_t i = 0;
  for (; i + kChains * V::kWidth <= n; i += kChains * V::kWidth) {
    INTACT_UNROLL("GCC unroll 4")
    for (size_t k = 0; k < kChains; ++k) {
      top[k] = V::larger_int(top[k], magnitude<V>(V::load(x + i + k * V::kWidth)));
    }
  }
  for (; i + V::kWidth <= n; i += V::kWidth) top[0] = V::larger_int(top[0], magnitude<V>(V::load(x + i)));
  if (i < n) top[1] = V::larger_int(top[1], magnitude<V>(V::load_part(x + i, n - i, 0.0f)));
  const I<V> all = V::larger_int(V::larger_int(top[0], top[1]), V::larger_int(top[2], top[3]));
  return std::bit_cast<float>(V::largest_int_of(all));
}

template <class V>
struct Running {
  F<V> min, max;
  typename V::Mask nan;  // lanes that met one

  // A NaN only shows in `nan`.
  INTACT_INLINE void fold(F<V> x) {
    min = V::smaller(x, min);
    max = V::larger(x, max);
    nan = V::either(nan, V::is_nan(x));
  }
};

template <class V>
MinMax minmax(const float* x, size_t n) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  const Running<V> start = {V::set(kInf), V::set(-kInf), V::less(V::set(0.0f), V::set(0.0f))};
  Running<V> a = start, b = start;
  size_t i = 0;
  for (; i + 2 * V::kWidth <= n; i += 2 * V::kWidth) {
    a.fold(V::load(x + i));
    b.fold(V::load(x + i + V::kWidth));
  }
  if (i + V::kWidth <= n) {
    a.fold(V::load(x + i));
    i += V::kWidth;
  }
  if (i < n) b.fold(V::load_part(x + i, n - i, x[i]));
  if (V::any(V::either(a.nan, b.nan))) {
    constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
    return {kNan, kNan};
  }
  return {V::smallest_of(V::smaller(a.min, b.min)), V::largest_of(V::larger(a.max, b.max))};
}

template <class V>
void absmax_each(const float* x, size_t n, float* amax) {
  size_t i = 0;
  for (; i + V::kWidth <= n; i += V::kWidth) {
    V::store_int(amax + i, V::larger_int(V::load_int(amax + i), magnitude<V>(V::load(x + i))));
  }
  if (i < n) reduce_ref.absmax_each(x + i, n - i, amax + i);
}

template <class V>
void minmax_each(const float* x, size_t n, float* min, float* max) {
  size_t i = 0;
  for (; i + V::kWidth <= n; i += V::kWidth) {
    const F<V> v = V::load(x + i);
    const auto nan = V::is_nan(v);
    const F<V> low = V::smaller(v, V::load(min + i)), high = V::larger(v, V::load(max + i));
    V::store(min + i, V::select(nan, v, low));
    V::store(max + i, V::select(nan, v, high));
  }
  if (i < n) reduce_ref.minmax_each(x + i, n - i, min + i, max + i);
}

template <class V>
constexpr ReduceOps ops_of() {
  return {absmax<V>, minmax<V>, absmax_each<V>, minmax_each<V>};
}

}  // namespace intact::reduce_loops
