// Arcs, and the hyperbolic functions: numerics.floats.trigonometry and hyperbolic, once for every register.
#pragma once

#include <limits>

#include "kernels/float_steps/functions.h"

namespace intact::float_steps {

constexpr float kAtan[] = {-0.33333316445350647f, 0.1999848335981369f, -0.1424373835325241f,
                           0.10595139116048813f, -0.060811545699834824f};
constexpr float kAsin[] = {0.16666755080223083f, 0.07495223730802536f, 0.04547958821058273f,
                           0.02413436770439148f, 0.042242538183927536f};
constexpr float kSinh[] = {0.1666666716337204f, 0.008333350531756878f, 0.000198360561626032f,
                           2.817501808749512e-06f};
constexpr float kPi = 3.14159265f, kHalfPi = 1.57079633f, kQuarterPi = 0.785398163f;
constexpr float kLn2 = 0.693147181f;
constexpr float kFar = 0x1p30f;

template <class V>
INTACT_INLINE F<V> atan(F<V> x) {
  const F<V> one = V::set(1.0f), magnitude = V::abs(x);
  const auto above = V::less(one, magnitude);
  const F<V> t = V::select(above, one / magnitude, magnitude);
  const auto high = V::less(V::set(0.414213562f), t);
  const F<V> u = V::select(high, (t - one) / (t + one), t), square = u * u;
  const F<V> y =
      polynomial<V>(kAtan, square) * square * u + u + V::select(high, V::set(kQuarterPi), V::set(0.0f));
  return V::with_sign(V::select(above, V::set(kHalfPi) - y, y), x);
}

// asin of a >= 0 up to 0.5, beyond of sqrt((1 - a) / 2).
template <class V>
INTACT_INLINE F<V> half_arc(F<V> a) {
  const auto far = V::less(V::set(0.5f), a);
  const F<V> u = V::select(far, V::sqrt((V::set(1.0f) - a) * V::set(0.5f)), a), square = u * u;
  return polynomial<V>(kAsin, square) * square * u + u;
}

template <class V>
INTACT_INLINE F<V> asin(F<V> x) {
  const F<V> magnitude = V::abs(x), y = half_arc<V>(magnitude);
  const auto far = V::less(V::set(0.5f), magnitude);
  return V::with_sign(V::select(far, V::set(kHalfPi) - V::set(2.0f) * y, y), x);
}

template <class V>
INTACT_INLINE F<V> acos(F<V> x) {
  const F<V> magnitude = V::abs(x), y = half_arc<V>(magnitude), twice = V::set(2.0f) * y;
  const F<V> beyond = V::select(V::less(x, V::set(0.0f)), V::set(kPi) - twice, twice);
  const F<V> within = V::set(kHalfPi) - V::with_sign(y, x);
  return V::select(V::less(V::set(0.5f), magnitude), beyond, within);
}

// e^a / 2 of a >= 0.
template <class V>
INTACT_INLINE F<V> half_exp(F<V> a) {
  const F<V> h = exp<V>(a * V::set(0.5f));
  return h * V::set(0.5f) * h;
}

template <class V>
INTACT_INLINE F<V> sinh(F<V> x) {
  const F<V> magnitude = V::abs(x), square = magnitude * magnitude, e = half_exp<V>(magnitude);
  const F<V> small = polynomial<V>(kSinh, square) * square * magnitude + magnitude;
  const auto far = V::less(V::set(1.0f), magnitude);
  return V::with_sign(V::select(far, e - V::set(0.25f) / e, small), x);
}

template <class V>
INTACT_INLINE F<V> cosh(F<V> x) {
  const F<V> e = half_exp<V>(V::abs(x));
  return e + V::set(0.25f) / e;
}

template <class V>
INTACT_INLINE F<V> log1p(F<V> u) {
  const F<V> one = V::set(1.0f), w = one + u;
  const F<V> y = log<V>(w) + (u - (w - one)) / w;
  return V::select(V::less(u, V::set(std::numeric_limits<float>::infinity())), y, u);
}

template <class V>
INTACT_INLINE F<V> asinh(F<V> x) {
  const F<V> one = V::set(1.0f), a = V::abs(x), square = a * a;
  const F<V> near = log1p<V>(a + square / (one + V::sqrt(square + one)));
  const F<V> y = V::select(V::less(a, V::set(kFar)), near, log<V>(a) + V::set(kLn2));
  return V::with_sign(y, x);
}

template <class V>
INTACT_INLINE F<V> acosh(F<V> x) {
  const F<V> t = x - V::set(1.0f);
  const F<V> near = log1p<V>(t + V::sqrt(t * (t + V::set(2.0f))));
  const F<V> y = V::select(V::less(x, V::set(kFar)), near, log<V>(x) + V::set(kLn2));
  return V::select(V::less(x, V::set(1.0f)), V::set(std::numeric_limits<float>::quiet_NaN()), y);
}

template <class V>
INTACT_INLINE F<V> atanh(F<V> x) {
  const F<V> a = V::abs(x);
  return V::with_sign(V::set(0.5f) * log1p<V>((a + a) / (V::set(1.0f) - a)), x);
}

template <class V>
constexpr NamedFunction kArcs[] = {
    rare<V, acos<V>>("acos"),   rare<V, acosh<V>>("acosh"), rare<V, asin<V>>("asin"),
    rare<V, asinh<V>>("asinh"), rare<V, atan<V>>("atan"),   rare<V, atanh<V>>("atanh"),
    rare<V, cosh<V>>("cosh"),   rare<V, sinh<V>>("sinh"),
};

}  // namespace intact::float_steps
