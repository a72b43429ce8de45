// The loops of the family, once for every register (base/vector/vector.h). Memory-bound: the division hides
// behind the loads.
#pragma once

#include "base/vector/vector.h"
#include "kernels/fake_quantize/fake_quantize.h"

namespace intact::fake_quantize_loops {

using vec::F;

// Bounds are whole numbers: steps within them round to integers within them.
template <class V>
INTACT_INLINE F<V> quantized(F<V> x, F<V> scale, F<V> low, F<V> high) {
  const F<V> steps = vec::at_most<V>(vec::at_least<V>(x / scale, low), high);
  return (V::round(steps) + V::set(0.0f)) * scale;
}

template <class V>
void run_shared(const float* x, size_t n, const Grid& grid, float* y) {
  const F<V> scale = V::set(*grid.scale), low = V::set(*grid.low), high = V::set(*grid.high);
  vec::for_each<V>(n, [&](size_t i, size_t k) INTACT_INLINE_BODY {
    vec::store<V>(y + i, quantized<V>(vec::load<V>(x + i, k), scale, low, high), k);
  });
}

template <class V>
void run_each(const float* x, size_t n, const Grid& grid, float* y) {
  vec::for_each<V>(n, [&](size_t i, size_t k) INTACT_INLINE_BODY {
    const F<V> scale = vec::load<V>(grid.scale + i, k, 1.0f);
    const F<V> low = vec::load<V>(grid.low + i, k), high = vec::load<V>(grid.high + i, k);
    vec::store<V>(y + i, quantized<V>(vec::load<V>(x + i, k), scale, low, high), k);
  });
}

template <class V>
void run(const float* x, size_t n, const Grid& grid, float* y) {
  (grid.shared ? run_shared<V> : run_each<V>)(x, n, grid, y);
}

template <class V>
constexpr FakeQuantizeOps ops_of() {
  return {run<V>};
}

}  // namespace intact::fake_quantize_loops
