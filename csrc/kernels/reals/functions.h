// numerics.functions, once for every register: V gives a vector of floats with operators that round each
// operation by itself (vectors.h says what else). The orders of operations are normative.
#pragma once

#include <cstddef>
#include <cstdint>

// Without it compilers make calls of these, and load all coefficients anew for every vector.
#if defined(_MSC_VER)
#define INTACT_INLINE __forceinline
#else
#define INTACT_INLINE [[gnu::always_inline]] inline
#endif

namespace intact::reals {

template <class V>
using F = typename V::Floats;

// c[0] + c[1] x + ... in pairs: (c[1] x + c[0]), (c[3] x + c[2]), ...; those in pairs with x^2, and so on.
template <class V, size_t n>
INTACT_INLINE F<V> pairs(const F<V> (&terms)[n], F<V> x) {
  if constexpr (n == 1) {
    return terms[0];
  } else {
    F<V> sums[(n + 1) / 2];
    for (size_t i = 0; i + 1 < n; i += 2) sums[i / 2] = terms[i + 1] * x + terms[i];
    if constexpr (n % 2 == 1) sums[n / 2] = terms[n - 1];
    return pairs<V>(sums, x * x);
  }
}

template <class V, size_t n>
INTACT_INLINE F<V> polynomial(const float (&coefficients)[n], F<V> x) {
  F<V> terms[n];
  for (size_t i = 0; i < n; ++i) terms[i] = V::set(coefficients[i]);
  return pairs<V>(terms, x);
}

// Adding it rounds to an integer, which lies in the low bits of the sum then.
constexpr float kRounder = 12582912.0f;
constexpr int32_t kRounderBits = 0x4B400000;

constexpr float kExp[] = {0.4999999403953552f, 0.16666515171527863f, 0.04166845977306366f,
                          0.008369430899620056f, 0.0013813059777021408f};
constexpr float kExp2[] = {0.6931471824645996f, 0.24022647738456726f, 0.05550331994891167f,
                           0.009618439711630344f, 0.0013399136951193213f, 0.00015353165508713573f};
constexpr float kTail[] = {-1.1511051654815674f, -0.4592081904411316f, -0.052496179938316345f,
                           0.007063420955091715f, -0.00013693701475858688f, -0.00018617995374370366f,
                           3.9377628127112985e-05f, -2.8349072636046913e-06f};
constexpr float kErf[] = {1.1283791065216064f, -0.3761262595653534f, 0.1128358542919159f,
                          -0.026853812858462334f, 0.005188328213989735f, -0.0008010196615941823f,
                          7.853862189222127e-05f};
constexpr float kTanh[] = {-0.33333274722099304f, 0.13331274688243866f, -0.05372511222958565f,
                           0.020589778199791908f, -0.005648261401802301f};

// 2^n, n being what lies in the low bits of `shifted`: -126 to 127.
template <class V>
INTACT_INLINE F<V> power_in(F<V> shifted) {
  return V::floats(V::add_int(V::to_exponent(V::bits(shifted)), V::set_int(127 << 23)));
}

template <class V>
INTACT_INLINE F<V> exp2(F<V> y) {
  const F<V> shifted = y + V::set(kRounder);
  const F<V> f = y - (shifted - V::set(kRounder));
  return (polynomial<V>(kExp2, f) * f + V::set(1.0f)) * power_in<V>(shifted);
}

// 1 + r + r^2 EXP(r), r = x - n ln 2; `shifted` holds n.
template <class V>
INTACT_INLINE F<V> exp_fraction(F<V> x, F<V>& shifted) {
  shifted = x * V::set(1.44269504f) + V::set(kRounder);
  const F<V> n = shifted - V::set(kRounder);
  const F<V> r = x - n * V::set(0.693359375f) - n * V::set(-2.12194440e-4f);
  return polynomial<V>(kExp, r) * (r * r) + r + V::set(1.0f);
}

// The replaced arguments keep what is far below from costing the time of denormal numbers.
template <class V>
INTACT_INLINE F<V> exp(F<V> x) {
  const auto small = V::less(x, V::set(-104.0f));
  F<V> shifted;
  const F<V> y = exp_fraction<V>(V::at_most(V::select(small, V::set(0.0f), x), V::set(89.0f)), shifted);
  const auto n = V::sub_int(V::bits(shifted), V::set_int(kRounderBits));
  const auto half = V::halve_int(n);
  const auto power = [](auto i) { return V::floats(V::to_exponent(V::add_int(i, V::set_int(127)))); };
  return V::select(small, V::set(0.0f), y * power(half) * power(V::sub_int(n, half)));
}

// exp of -87 to 87.
template <class V>
INTACT_INLINE F<V> normal_exp(F<V> x) {
  F<V> shifted;
  const F<V> y = exp_fraction<V>(x, shifted);
  return y * power_in<V>(shifted);
}

template <class V>
INTACT_INLINE F<V> normal_tail(F<V> a) {
  a = V::at_most(a, V::set(6.0f));
  return exp2<V>(polynomial<V>(kTail, a) * a - V::set(1.0f));
}

template <class V>
INTACT_INLINE F<V> erf(F<V> x) {
  const F<V> magnitude = V::abs(x);
  const F<V> small = polynomial<V>(kErf, x * x) * magnitude;
  const F<V> large = V::set(1.0f) - V::set(2.0f) * normal_tail<V>(magnitude * V::set(1.41421356f));
  return V::with_sign(V::select(V::less(magnitude, V::set(0.9f)), small, large), x);
}

template <class V>
INTACT_INLINE F<V> tanh(F<V> x) {
  const F<V> magnitude = V::abs(x), square = x * x;
  const F<V> small = polynomial<V>(kTanh, square) * square * magnitude + magnitude;
  const F<V> twice = V::at_most(magnitude * V::set(2.0f), V::set(87.0f));
  const F<V> large = V::set(1.0f) - V::set(2.0f) / (normal_exp<V>(twice) + V::set(1.0f));
  return V::with_sign(V::select(V::less(magnitude, V::set(0.625f)), small, large), x);
}

template <class V>
INTACT_INLINE F<V> sigmoid(F<V> x) {
  const F<V> e = normal_exp<V>(V::at_least(V::set(0.0f) - V::abs(x), V::set(-87.0f)));
  return V::select(V::less(x, V::set(0.0f)), e, V::set(1.0f)) / (V::set(1.0f) + e);
}

template <class V>
INTACT_INLINE F<V> gelu(F<V> x) {
  const F<V> tail = normal_tail<V>(V::abs(x));
  const F<V> phi = V::select(V::less(x, V::set(0.0f)), tail, V::set(1.0f) - tail);
  return V::at_least(x, V::set(-6.0f)) * phi;
}

template <class V>
INTACT_INLINE F<V> gelu_tanh(F<V> x) {
  const F<V> inner = x * x * x * V::set(0.044715f) + x;
  return V::at_least(x, V::set(-16.0f)) * sigmoid<V>(inner * V::set(1.59576912f));
}

template <class V>
INTACT_INLINE F<V> silu(F<V> x) {
  return V::at_least(x, V::set(-128.0f)) * sigmoid<V>(x);
}

template <class V>
INTACT_INLINE F<V> hard_sigmoid(F<V> x) {
  const F<V> y = x * V::set(static_cast<float>(1.0 / 6)) + V::set(0.5f);
  return V::at_most(V::at_least(y, V::set(0.0f)), V::set(1.0f));
}

template <class V>
INTACT_INLINE F<V> hard_swish(F<V> x) {
  return V::at_least(x, V::set(-3.0f)) * hard_sigmoid<V>(x);
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

}  // namespace intact::reals
