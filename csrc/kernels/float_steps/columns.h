// softmax and layer_norm of many rows at once: element k of row i is x[k * rows + i]. A short row does not
// fill a register, and waits for the latency of its sums. Here a register holds one element of many rows.
// The order of operations within a row is that of loops.h.
#pragma once

#include <array>
#include <limits>

#include "base/vector/lane_sum.h"
#include "kernels/float_steps/functions.h"

namespace intact::float_steps {

// numerics.lane_sum of each lane's own numbers, at least one.
template <class V>
class ColumnSum {
 public:
  INTACT_INLINE void add(size_t index, F<V> v) {
    F<V>& lane = lanes_[index % vec::kLanes];
    lane = (index < vec::kLanes ? V::set(0.0f) : lane) + v;
    used_ = index < vec::kLanes ? index + 1 : used_;
  }

  // A lane without elements holds +0, which changes no sum, as no other lane is -0.
  INTACT_INLINE F<V> total() {
    for (size_t half = vec::kLanes / 2; half > 0; half /= 2) {
      for (size_t i = half; i < used_; ++i) lanes_[i - half] = lanes_[i - half] + lanes_[i];
      used_ = used_ < half ? used_ : half;
    }
    return lanes_[0];
  }

 private:
  std::array<F<V>, vec::kLanes> lanes_;
  size_t used_ = 0;
};

// e of numerics.softmax.
template <class V>
INTACT_INLINE F<V> softmax_power(F<V> below) {
  const F<V> power = exp2<V>(below * V::set(1.44269504f));
  return V::select(V::less(below, V::set(-87.0f)), V::set(0.0f), power);
}

template <class V>
void softmax_columns(float* x, size_t n, size_t rows, float gain, const float* mask) {
  const bool changes = gain != 1.0f || mask != nullptr;
  vec::for_each<V>(rows, [&](size_t i, size_t k) INTACT_INLINE_BODY {
    F<V> top = V::set(-std::numeric_limits<float>::infinity());
    for (size_t at = i, r = 0; r < n; ++r, at += rows) {
      F<V> v = vec::load<V>(x + at, k);
      if (changes) {
        v = v * V::set(gain);
        if (mask != nullptr) v = v + vec::load<V>(mask + at, k);
        vec::store<V>(x + at, v, k);
      }
      top = V::larger(top, v);
    }
    ColumnSum<V> sum;
    for (size_t at = i, r = 0; r < n; ++r, at += rows) {
      const F<V> e = softmax_power<V>(vec::load<V>(x + at, k) - top);
      vec::store<V>(x + at, e, k);
      sum.add(r, e);
    }
    const F<V> factor = V::set(1.0f) / sum.total();
    for (size_t at = i, r = 0; r < n; ++r, at += rows) {
      vec::store<V>(x + at, vec::load<V>(x + at, k) * factor, k);
    }
  });
}

template <class V>
void layer_norm_columns(float* x, size_t n, size_t rows, const float* residual, const float* weight,
                        const float* bias, float epsilon) {
  const F<V> count = V::set(static_cast<float>(n));
  vec::for_each<V>(rows, [&](size_t i, size_t k) INTACT_INLINE_BODY {
    ColumnSum<V> sum;
    for (size_t at = i, r = 0; r < n; ++r, at += rows) {
      F<V> v = vec::load<V>(x + at, k);
      if (residual != nullptr) {
        v = v + vec::load<V>(residual + at, k);
        vec::store<V>(x + at, v, k);
      }
      sum.add(r, v);
    }
    const F<V> mean = sum.total() / count;
    ColumnSum<V> squares;
    for (size_t at = i, r = 0; r < n; ++r, at += rows) {
      const F<V> d = vec::load<V>(x + at, k) - mean;
      vec::store<V>(x + at, d, k);
      squares.add(r, d * d);
    }
    const F<V> inverse = V::set(1.0f) / V::sqrt(squares.total() / count + V::set(epsilon));
    for (size_t at = i, r = 0; r < n; ++r, at += rows) {
      F<V> y = vec::load<V>(x + at, k) * inverse;
      if (weight != nullptr) y = y * V::set(weight[r]);
      if (bias != nullptr) y = y + V::set(bias[r]);
      vec::store<V>(x + at, y, k);
    }
  });
}

}  // namespace intact::float_steps
