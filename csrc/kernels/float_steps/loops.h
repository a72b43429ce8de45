// The loops of the family, once for every register (base/vector/vector.h).
#pragma once

#include <limits>

#include "base/vector/lane_sum.h"
#include "kernels/float_steps/activations.h"
#include "kernels/float_steps/arcs.h"
#include "kernels/float_steps/columns.h"
#include "kernels/float_steps/float_steps.h"
#include "kernels/float_steps/functions.h"
#include "kernels/float_steps/maps.h"
#include "kernels/float_steps/periodic.h"

namespace intact::float_steps {

using vec::kLanes;
using vec::LaneSum;

template <class V, F<V> (*function)(F<V>, F<V>)>
void combine(const float* a, size_t a_step, const float* b, size_t b_step, size_t n, float* y) {
  const F<V> one_a = V::set(n ? *a : 0.0f), one_b = V::set(n ? *b : 0.0f);
  for_each<V>(n, [&](size_t i, size_t k) INTACT_INLINE_BODY {
    const F<V> left = a_step ? load<V>(a + i, k) : one_a;
    const F<V> right = b_step ? load<V>(b + i, k, 1.0f) : one_b;
    store<V>(y + i, function(left, right), k);
  });
}

template <class V>
F<V> add(F<V> a, F<V> b) {
  return a + b;
}
template <class V>
F<V> sub(F<V> a, F<V> b) {
  return a - b;
}
template <class V>
F<V> mul(F<V> a, F<V> b) {
  return a * b;
}
template <class V>
F<V> div(F<V> a, F<V> b) {
  return a / b;
}

template <class V>
F<V> maximum(F<V> a, F<V> b) {
  return V::select(V::is_nan(b), b, at_least<V>(a, b));
}
template <class V>
F<V> minimum(F<V> a, F<V> b) {
  return V::select(V::is_nan(b), b, at_most<V>(a, b));
}

template <class V>
F<V> sloped(F<V> x, F<V> slope) {
  return V::select(V::less(x, V::set(0.0f)), x * slope, x);
}

template <class V>
void clip(const float* x, size_t n, float low, float high, float* y) {
  const F<V> least = V::set(low), most = V::set(high);
  for_each<V>(n, [&](size_t i, size_t k) INTACT_INLINE_BODY {
    store<V>(y + i, at_most<V>(at_least<V>(load<V>(x + i, k), least), most), k);
  });
}

template <class V>
float sum(const float* x, size_t n) {
  LaneSum<V> lanes;
  for_each<V>(n, [&](size_t i, size_t k) INTACT_INLINE_BODY { lanes.add(i, load<V>(x + i, k), k); });
  return lanes.total();
}

template <class V>
float softmax_peak(float* x, size_t n, float gain, const float* mask) {
  constexpr float kLeast = -std::numeric_limits<float>::infinity();
  F<V> largest = V::set(kLeast);
  if (mask == nullptr && late_gain(gain, mask) == gain) {
    F<V> other = largest;
    size_t i = 0;
    for (; i + 2 * V::kWidth <= n; i += 2 * V::kWidth) {
      largest = V::larger(largest, V::load(x + i));
      other = V::larger(other, V::load(x + i + V::kWidth));
    }
    for_each<V>(n - i, [&](size_t at, size_t k) INTACT_INLINE_BODY {
      largest = V::larger(largest, load<V>(x + i + at, k, kLeast));
    });
    return V::largest_of(V::larger(largest, other)) * gain;
  }
  const F<V> factor = V::set(gain);
  for_each<V>(n, [&](size_t i, size_t k) INTACT_INLINE_BODY {
    F<V> v = load<V>(x + i, k) * factor;
    if (mask) v = v + load<V>(mask + i, k);
    store<V>(x + i, v, k);
    if (k < V::kWidth) v = load<V>(x + i, k, kLeast);
    largest = V::larger(largest, v);
  });
  return V::largest_of(largest);
}

template <class V>
float softmax_powers(float* x, size_t n, float gain, float peak) {
  const F<V> top = V::set(peak), factor = V::set(gain);
  LaneSum<V> sum;
  for_each<V>(n, [&](size_t i, size_t k) INTACT_INLINE_BODY {
    const F<V> e = softmax_power<V>(load<V>(x + i, k) * factor - top);
    store<V>(x + i, e, k);
    sum.add(i, e, k);
  });
  return 1.0f / sum.total();
}

template <class V>
float softmax(float* x, size_t n, float gain, const float* mask) {
  const float peak = softmax_peak<V>(x, n, gain, mask);
  return softmax_powers<V>(x, n, late_gain(gain, mask), peak);
}

template <class V>
void layer_norm(float* x, size_t n, const float* residual, const float* weight, const float* bias,
                float epsilon) {
  const float count = static_cast<float>(n);
  LaneSum<V> sum;
  for_each<V>(n, [&](size_t i, size_t k) INTACT_INLINE_BODY {
    F<V> v = load<V>(x + i, k);
    if (residual) {
      v = v + load<V>(residual + i, k);
      store<V>(x + i, v, k);
    }
    sum.add(i, v, k);
  });
  const F<V> mean = V::set(sum.total() / count);
  LaneSum<V> squares;
  for_each<V>(n, [&](size_t i, size_t k) INTACT_INLINE_BODY {
    const F<V> d = load<V>(x + i, k) - mean;
    store<V>(x + i, d, k);
    squares.add(i, d * d, k);
  });
  const F<V> r = V::set(1.0f / V::root(squares.total() / count + epsilon));
  for_each<V>(n, [&](size_t i, size_t k) INTACT_INLINE_BODY {
    F<V> y = load<V>(x + i, k) * r;
    if (weight) y = y * load<V>(weight + i, k);
    if (bias) y = y + load<V>(bias + i, k);
    store<V>(x + i, y, k);
  });
}

template <class V>
void lstm(const float* gates, size_t n, float* c, float* h) {
  for_each<V>(n, [&](size_t i, size_t k) INTACT_INLINE_BODY {
    const F<V> in = sigmoid<V>(load<V>(gates + i, k)), out = sigmoid<V>(load<V>(gates + n + i, k));
    const F<V> forget = sigmoid<V>(load<V>(gates + 2 * n + i, k));
    const F<V> candidate = tanh<V>(load<V>(gates + 3 * n + i, k));
    const F<V> cell = forget * load<V>(c + i, k) + in * candidate;
    store<V>(c + i, cell, k);
    store<V>(h + i, out * tanh<V>(cell), k);
  });
}

template <class V>
void reset(const float* gate, const float* state, size_t n, float* to) {
  for_each<V>(n, [&](size_t i, size_t k) INTACT_INLINE_BODY {
    store<V>(to + i, sigmoid<V>(load<V>(gate + i, k)) * load<V>(state + i, k), k);
  });
}

template <class V>
void gru(const float* update, const float* candidate, const float* start, size_t n, float* h) {
  for_each<V>(n, [&](size_t i, size_t k) INTACT_INLINE_BODY {
    const F<V> z = sigmoid<V>(load<V>(update + i, k));
    F<V> sum = load<V>(candidate + i, k);
    if (start != nullptr) sum = load<V>(start + i, k) + sum;
    const F<V> kept = z * load<V>(h + i, k);
    store<V>(h + i, (V::set(1.0f) - z) * tanh<V>(sum) + kept, k);
  });
}

template <class V>
void mul_codes(const uint8_t* a, int32_t zero, float a_scale, const float* b, size_t n, float scale,
               const ByteGrid& grid, uint8_t* q) {
  const F<V> step = V::set(a_scale);
  const auto shift = V::set_int(zero);
  const vec::Quotients<V> quotients(scale, grid);
  for_each<V>(n, [&](size_t i, size_t k) INTACT_INLINE_BODY {
    const F<V> x = V::to_float(V::sub_int(vec::load_u8<V>(a + i, k), shift)) * step;
    vec::store_u8<V>(q + i, quotients.of(x * load<V>(b + i, k)), k);
  });
}

template <class V>
void dequantize(const uint8_t* q, size_t n, int32_t zero, float scale, float* x) {
  const F<V> step = V::set(scale);
  const auto shift = V::set_int(zero);
  for_each<V>(n, [&](size_t i, size_t k) INTACT_INLINE_BODY {
    const auto steps = V::sub_int(vec::load_u8<V>(q + i, k), shift);
    store<V>(x + i, V::to_float(steps) * step, k);
  });
}

template <class V>
void quantize(const float* x, size_t n, float factor, float scale, const ByteGrid& grid, uint8_t* q) {
  const F<V> times = V::set(factor);
  const vec::Quotients<V> quotients(scale, grid);
  for_each<V>(n, [&](size_t i, size_t k) INTACT_INLINE_BODY {
    vec::store_u8<V>(q + i, quotients.of(load<V>(x + i, k) * times), k);
  });
}

template <class V>
void softmax_codes(float* x, size_t rows, size_t pitch, size_t n, float scale, const ByteGrid& grid,
                   uint8_t* q) {
  for (size_t r = 0; r < rows; ++r, x += pitch, q += n) {
    quantize<V>(x, n, softmax<V>(x, n, 1.0f, nullptr), scale, grid, q);
  }
}

template <class V>
constexpr auto kFunctions = join(kElementary<V>, kArcs<V>, kPeriodic<V>, kActivations<V>);

template <class V>
constexpr FloatOps ops_of() {
  return {kFunctions<V>.rows,
          clip<V>,
          {combine<V, add<V>>, combine<V, sub<V>>, combine<V, mul<V>>, combine<V, div<V>>,
           combine<V, maximum<V>>, combine<V, minimum<V>>, combine<V, sloped<V>>},
          mul_codes<V>,
          dequantize<V>,
          quantize<V>,
          sum<V>,
          softmax_peak<V>,
          softmax_powers<V>,
          softmax_codes<V>,
          layer_norm<V>,
          softmax_columns<V>,
          layer_norm_columns<V>,
          lstm<V>,
          reset<V>,
          gru<V>};
}

}  // namespace intact::float_steps
