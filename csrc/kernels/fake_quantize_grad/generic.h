// The loop of the family, once for every register (base/vector/vector.h).
#pragma once

#include "base/vector/lane_sum.h"
#include "kernels/fake_quantize_grad/fake_quantize_grad.h"

namespace intact::fake_quantize_grad_loops {

using vec::F;

template <class V>
void run(const float* grad, const float* x, size_t n, const Grid& grid, float* y) {
  const bool shared = grid.shared;
  const F<V> least = V::set(shared ? *grid.low : 0.0f), most = V::set(shared ? *grid.high : 0.0f);
  vec::for_each<V>(n, [&](size_t i, size_t k) INTACT_INLINE_BODY {
    const F<V> low = shared ? least : vec::load<V>(grid.low + i, k);
    const F<V> high = shared ? most : vec::load<V>(grid.high + i, k);
    const F<V> v = vec::load<V>(x + i, k);
    const auto passes = V::both(V::less_equal(low, v), V::less_equal(v, high));
    vec::store<V>(y + i, V::only(passes, vec::load<V>(grad + i, k)), k);
  });
}

template <class V>
RangeSums learn(const float* grad, const float* x, const float* y, size_t n, float low, float high,
                float* to_x) {
  const F<V> least = V::set(low), most = V::set(high), none = V::set(0.0f);
  vec::LaneSum<V> between, beyond, shift;
  vec::for_each<V>(n, [&](size_t i, size_t k) INTACT_INLINE_BODY {
    const F<V> v = vec::load<V>(x + i, k), g = vec::load<V>(grad + i, k), made = vec::load<V>(y + i, k);
    const auto inside = V::both(V::less(least, v), V::less(v, most));
    vec::store<V>(to_x + i, V::only(inside, g), k);
    between.add(i, V::only(inside, g * (made - v)), k);
    beyond.add(i, V::select(inside, none, g * made), k);
    shift.add(i, V::select(inside, none, g), k);
  });
  return {between.total(), beyond.total(), shift.total()};
}

template <class V>
constexpr FakeQuantizeGradOps ops_of() {
  return {run<V>, learn<V>};
}

}  // namespace intact::fake_quantize_grad_loops
