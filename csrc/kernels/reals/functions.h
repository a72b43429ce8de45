// numerics.functions, once for every register: V gives a vector of floats with operators that round each
// operation by itself (vectors.h says what else). The orders of operations are normative.
#pragma once

#include <cstddef>
#include <cstdint>

namespace intact::reals {

template <class V>
using F = typename V::Floats;

template <class V, size_t n>
inline F<V> horner(const float (&coefficients)[n], F<V> x) {
  F<V> y = V::set(coefficients[0]);
  for (size_t i = 1; i < n; ++i) y = y * x + V::set(coefficients[i]);
  return y;
}

// Adding it rounds to an integer, which lies in the low bits of the sum then.
constexpr float kRounder = 12582912.0f;
constexpr int32_t kRounderBits = 0x4B400000;

constexpr float kExp[] = {0.0013813059777021408f, 0.008369430899620056f, 0.04166845977306366f,
                          0.16666515171527863f, 0.4999999403953552f};
constexpr float kExp2[] = {0.00015353165508713573f, 0.0013399136951193213f, 0.009618439711630344f,
                           0.05550331994891167f,    0.24022647738456726f,   0.6931471824645996f};
constexpr float kTail[] = {2.8349072636046913e-06f, -3.9377628127112985e-05f, 0.00018617995374370366f,
                           0.00013693701475858688f, -0.007063420955091715f,   0.052496179938316345f,
                           0.4592081904411316f,     1.1511051654815674f};
constexpr float kErf[] = {7.853862189222127e-05f, -0.0008010196615941823f, 0.005188328213989735f,
                          -0.026853812858462334f, 0.1128358542919159f,     -0.3761262595653534f,
                          1.1283791065216064f};
constexpr float kTanh[] = {-0.005648261401802301f, 0.020589778199791908f, -0.05372511222958565f,
                           0.13331274688243866f, -0.33333274722099304f};

// 1 + r + r^2 EXP(r), r = x - n ln 2; `shifted` holds n.
template <class V>
inline F<V> exp_fraction(F<V> x, F<V>& shifted) {
  shifted = x * V::set(1.44269504f) + V::set(kRounder);
  const F<V> n = shifted - V::set(kRounder);
  const F<V> r = x - n * V::set(0.693359375f) - n * V::set(-2.12194440e-4f);
  return horner<V>(kExp, r) * (r * r) + r + V::set(1.0f);
}

// The replaced arguments keep what is far below from costing the time of denormal numbers.
template <class V>
inline F<V> exp(F<V> x) {
  const auto small = V::less(x, V::set(-104.0f));
  F<V> shifted;
  const F<V> y = exp_fraction<V>(V::at_most(V::select(small, V::set(0.0f), x), V::set(89.0f)), shifted);
  const auto n = V::sub_int(V::bits(shifted), V::set_int(kRounderBits));
  const auto half = V::halve_int(n);
  const F<V> scaled = y * V::power_of_two(half) * V::power_of_two(V::sub_int(n, half));
  return V::select(small, V::set(0.0f), scaled);
}

template <class V>
inline F<V> normal_tail(F<V> a) {
  a = V::at_most(a, V::set(6.0f));
  const F<V> q = horner<V>(kTail, a) * a + V::set(1.0f);
  const F<V> shifted = q + V::set(kRounder);
  const F<V> f = shifted - V::set(kRounder) - q;
  const F<V> y = horner<V>(kExp2, f) * f + V::set(1.0f);
  return y * V::power_of_two(V::sub_int(V::set_int(kRounderBits), V::bits(shifted)));
}

template <class V>
inline F<V> erf(F<V> x) {
  const F<V> magnitude = V::abs(x);
  const F<V> small = horner<V>(kErf, x * x) * magnitude;
  const F<V> large = V::set(1.0f) - V::set(2.0f) * normal_tail<V>(magnitude * V::set(1.41421356f));
  return V::with_sign(V::select(V::less(magnitude, V::set(0.9f)), small, large), x);
}

template <class V>
inline F<V> tanh(F<V> x) {
  const F<V> magnitude = V::abs(x), square = x * x;
  const F<V> small = horner<V>(kTanh, square) * square * magnitude + magnitude;
  const F<V> large = V::set(1.0f) - V::set(2.0f) / (exp<V>(magnitude * V::set(2.0f)) + V::set(1.0f));
  return V::with_sign(V::select(V::less(magnitude, V::set(0.625f)), small, large), x);
}

template <class V>
inline F<V> sigmoid(F<V> x) {
  const F<V> e = exp<V>(V::set(0.0f) - V::abs(x));
  return V::select(V::less(x, V::set(0.0f)), e, V::set(1.0f)) / (V::set(1.0f) + e);
}

template <class V>
inline F<V> gelu(F<V> x) {
  const F<V> tail = normal_tail<V>(V::abs(x));
  const F<V> phi = V::select(V::less(x, V::set(0.0f)), tail, V::set(1.0f) - tail);
  return V::at_least(x, V::set(-6.0f)) * phi;
}

template <class V>
inline F<V> gelu_tanh(F<V> x) {
  const F<V> inner = x * x * x * V::set(0.044715f) + x;
  return V::at_least(x, V::set(-16.0f)) * sigmoid<V>(inner * V::set(1.59576912f));
}

template <class V>
inline F<V> silu(F<V> x) {
  return V::at_least(x, V::set(-128.0f)) * sigmoid<V>(x);
}

template <class V>
inline F<V> hard_sigmoid(F<V> x) {
  const F<V> y = x * V::set(static_cast<float>(1.0 / 6)) + V::set(0.5f);
  return V::at_most(V::at_least(y, V::set(0.0f)), V::set(1.0f));
}

template <class V>
inline F<V> hard_swish(F<V> x) {
  return V::at_least(x, V::set(-3.0f)) * hard_sigmoid<V>(x);
}

template <class V>
inline F<V> elu(F<V> x) {
  return V::select(V::less(x, V::set(0.0f)), exp<V>(x) - V::set(1.0f), x);
}

template <class V>
inline F<V> leaky_relu(F<V> x) {
  return V::select(V::less(x, V::set(0.0f)), x * V::set(0.01f), x);
}

template <class V>
inline F<V> relu(F<V> x) {
  return V::select(V::less(x, V::set(0.0f)), V::set(0.0f), x);
}

}  // namespace intact::reals
