// Activation functions: numerics.floats.activations, once for every register. The orders of operations are
// normative.
#pragma once

#include "kernels/float_steps/functions.h"

namespace intact::float_steps {

template <class V>
INTACT_INLINE F<V> sigmoid(F<V> x) {
  const F<V> e = normal_exp<V>(at_least<V>(V::set(0.0f) - V::abs(x), V::set(-87.0f)));
  return V::select(V::less(x, V::set(0.0f)), e, V::set(1.0f)) / (V::set(1.0f) + e);
}

template <class V>
INTACT_INLINE F<V> gelu(F<V> x) {
  const F<V> tail = normal_tail<V>(V::abs(x));
  const F<V> phi = V::select(V::less(x, V::set(0.0f)), tail, V::set(1.0f) - tail);
  return at_least<V>(x, V::set(-5.96f)) * phi;
}

template <class V>
INTACT_INLINE F<V> gelu_tanh(F<V> x) {
  const F<V> inner = x * x * x * V::set(0.044715f) + x;
  return at_least<V>(x, V::set(-16.0f)) * sigmoid<V>(inner * V::set(1.59576912f));
}

template <class V>
INTACT_INLINE F<V> silu(F<V> x) {
  return at_least<V>(x, V::set(-128.0f)) * sigmoid<V>(x);
}

template <class V>
INTACT_INLINE F<V> quick_gelu(F<V> x) {
  return x * sigmoid<V>(x * V::set(1.702f));
}

template <class V>
INTACT_INLINE F<V> hard_sigmoid(F<V> x) {
  const F<V> y = x * V::set(static_cast<float>(1.0 / 6)) + V::set(0.5f);
  return at_most<V>(at_least<V>(y, V::set(0.0f)), V::set(1.0f));
}

template <class V>
INTACT_INLINE F<V> hard_swish(F<V> x) {
  return at_least<V>(x, V::set(-3.0f)) * hard_sigmoid<V>(x);
}

template <class V>
INTACT_INLINE F<V> softplus(F<V> x) {
  const F<V> e = normal_exp<V>(at_least<V>(V::set(0.0f) - V::abs(x), V::set(-87.0f)));
  const F<V> whole = V::set(1.0f) + e;
  const F<V> lost = (e - (whole - V::set(1.0f))) / whole;
  return at_least<V>(x, V::set(0.0f)) + (log<V>(whole) + lost);
}

template <class V>
INTACT_INLINE F<V> softsign(F<V> x) {
  return x / (V::set(1.0f) + V::abs(x));
}

template <class V>
INTACT_INLINE F<V> mish(F<V> x) {
  const F<V> e = normal_exp<V>(at_most<V>(at_least<V>(x, V::set(-87.0f)), V::set(20.0f)));
  const F<V> n = e * (e + V::set(2.0f));
  return at_least<V>(x, V::set(-128.0f)) * (n / (n + V::set(2.0f)));
}

template <class V>
INTACT_INLINE F<V> elu(F<V> x) {
  return V::select(V::less(x, V::set(0.0f)), exp<V>(x) - V::set(1.0f), x);
}

template <class V>
INTACT_INLINE F<V> leaky_relu(F<V> x) {
  return V::select(V::less(x, V::set(0.0f)), x * V::set(0.01f), x);
}

template <class V>
INTACT_INLINE F<V> relu(F<V> x) {
  return V::select(V::less(x, V::set(0.0f)), V::set(0.0f), x);
}

template <class V>
constexpr NamedFunction kActivations[] = {
    named<V, elu<V>>("elu"),
    named<V, gelu<V>>("gelu", &smooth_gelu),
    named<V, gelu_tanh<V>>("gelu_tanh", &smooth_gelu_tanh),
    named<V, hard_sigmoid<V>>("hard_sigmoid"),
    named<V, hard_swish<V>>("hard_swish", &smooth_hard_swish),
    named<V, leaky_relu<V>>("leaky_relu"),
    named<V, mish<V>>("mish"),
    named<V, quick_gelu<V>>("quick_gelu"),
    named<V, relu<V>>("relu"),
    named<V, sigmoid<V>>("sigmoid"),
    named<V, silu<V>>("silu", &smooth_silu),
    rare<V, softplus<V>>("softplus"),
    rare<V, softsign<V>>("softsign"),
};

}  // namespace intact::float_steps
