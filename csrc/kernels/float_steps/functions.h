// The elementary functions of numerics.floats, once for every register (base/vector/vector.h). The orders of
// operations are normative. A header with functions ends with their table, and kFunctions joins the tables.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>

#include "base/vector/vector.h"
#include "kernels/float_steps/maps.h"

namespace intact::float_steps {

using vec::at_least;
using vec::at_most;

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

// Adding it rounds to an integer, which is then in the low bits of the sum.
constexpr float kRounder = 12582912.0f;
constexpr int32_t kRounderBits = 0x4B400000;

constexpr float kExp[] = {0.4999999403953552f, 0.16666515171527863f, 0.04166845977306366f,
                          0.008369430899620056f, 0.0013813059777021408f};
constexpr float kExp2[] = {0.6931471824645996f,   0.24022647738456726f,   0.05550331994891167f,
                           0.009618439711630344f, 0.0013399136951193213f, 0.00015353165508713573f};
// By power, then by piece.
constexpr float kTail[7][8] = {
    {0.5f, 0.21185539662837982f, 0.054799288511276245f, 0.008197535760700703f, 0.0006871382356621325f,
     3.1671203032601625e-05f, 7.933114147817832e-07f, 1.0716337150995514e-08f},
    {-0.3191538453102112f, -0.2317533940076828f, -0.08873680979013443f, -0.017915528267621994f,
     -0.0019072608556598425f, -0.00010707323235692456f, -3.170577656419482e-06f, -4.954346977115165e-08f},
    {1.0984363143506926e-06f, 0.07416077703237534f, 0.056791651993989944f, 0.017198992893099785f,
     0.0024412760976701975f, 0.00017130645574070513f, 6.086224402679363e-06f, 1.109173197733071e-07f},
    {0.03402869403362274f, 0.008904301561415195f, -0.014761103317141533f, -0.00909945648163557f,
     -0.0018801168771460652f, -0.00017101263802032918f, -7.401122275041416e-06f, -1.5755317406274116e-07f},
    {8.681100007379428e-05f, -0.009330011904239655f, -0.001335824141278863f, 0.002531789243221283f,
     0.0009431760990992188f, 0.00011870671733049676f, 6.47545903120772e-06f, 1.6551541648368584e-07f},
    {-0.003534480929374695f, 0.0003000746655743569f, 0.0017211508238688111f, -7.397398439934477e-05f,
     -0.0002997308038175106f, -6.1893901147414e-05f, -4.669110239774454e-06f, -1.5542190112682874e-07f},
    {0.0004063949454575777f, 0.0007356738788075745f, -0.00024404365103691816f, -0.00018496550910640508f,
     4.567701034829952e-05f, 2.198899346694816e-05f, 2.336662873858586e-06f, 9.760289998439475e-08f},
};
constexpr float kErf[] = {1.1283791065216064f,    -0.3761262595653534f,  0.1128358542919159f,
                          -0.026853812858462334f, 0.005188328213989735f, -0.0008010196615941823f,
                          7.853862189222127e-05f};
constexpr float kTanh[] = {-0.33333274722099304f, 0.13331274688243866f, -0.05372511222958565f,
                           0.020589778199791908f, -0.005648261401802301f};

constexpr float kLog[] = {0.3333331346511841f,  -0.25000008940696716f, 0.2000211924314499f,
                          -0.1666799634695053f, 0.14219550788402557f,  -0.1240558996796608f,
                          0.11888178437948227f, -0.11675652861595154f, 0.06746608018875122f};

// 2^n, n being what lies in the low bits of `shifted`: -126 to 127.
template <class V>
INTACT_INLINE F<V> power_in(F<V> shifted) {
  return V::floats(V::add_int(V::template shift_left<23>(V::bits(shifted)), V::set_int(127 << 23)));
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

// Replacing arguments far below avoids denormal numbers, which are slow.
template <class V>
INTACT_INLINE F<V> exp(F<V> x) {
  const auto small = V::less(x, V::set(-104.0f));
  F<V> shifted;
  const F<V> y = exp_fraction<V>(at_most<V>(V::select(small, V::set(0.0f), x), V::set(89.0f)), shifted);
  const auto n = V::sub_int(V::bits(shifted), V::set_int(kRounderBits));
  const auto half = V::template shift_down<1>(n);
  const auto power = [](auto i) {
    return V::floats(V::template shift_left<23>(V::add_int(i, V::set_int(127))));
  };
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
INTACT_INLINE F<V> log(F<V> x) {
  const auto denormal = V::less(x, V::set(0x1p-126f));
  const auto bits = V::bits(V::select(denormal, x * V::set(0x1p23f), x));
  const auto power = V::template shift_down<23>(V::sub_int(bits, V::set_int(0x3F3504F3)));
  const F<V> f = V::floats(V::sub_int(bits, V::template shift_left<23>(power))) - V::set(1.0f);
  const F<V> k = V::to_float(power) - V::select(denormal, V::set(23.0f), V::set(0.0f));
  const F<V> square = f * f;
  const F<V> low = polynomial<V>(kLog, f) * f * square - V::set(0.5f) * square + k * V::set(-2.12194440e-4f);
  const F<V> y = low + f + k * V::set(0.693359375f);
  constexpr float kInf = std::numeric_limits<float>::infinity();
  const F<V> whole = V::select(V::less(x, V::set(kInf)), y, x);
  const F<V> below =
      V::select(V::less(x, V::set(0.0f)), V::set(std::numeric_limits<float>::quiet_NaN()), V::set(-kInf));
  return V::select(V::less_equal(x, V::set(0.0f)), below, whole);
}

template <class V>
INTACT_INLINE F<V> sqrt(F<V> x) {
  return V::sqrt(x);
}

template <class V>
INTACT_INLINE F<V> normal_tail(F<V> a) {
  // Replacing these arguments changes no bit, and avoids denormal powers, which are slow.
  const F<V> u = at_least<V>(at_most<V>(a, V::set(5.96f)) * V::set(1.25f), V::set(0x1p-31f));
  const F<V> shifted = u + V::set(kRounder);
  F<V> terms[7];
  for (size_t i = 0; i < 7; ++i) terms[i] = V::lookup(kTail[i], V::bits(shifted));
  return pairs<V>(terms, u - (shifted - V::set(kRounder)));
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
  const F<V> twice = at_most<V>(magnitude * V::set(2.0f), V::set(87.0f));
  const F<V> large = V::set(1.0f) - V::set(2.0f) / (normal_exp<V>(twice) + V::set(1.0f));
  return V::with_sign(V::select(V::less(magnitude, V::set(0.625f)), small, large), x);
}

template <class V>
constexpr NamedFunction kElementary[] = {
    rare<V, erf<V>>("erf"),   rare<V, exp<V>>("exp"),    rare<V, log<V>>("log"),
    rare<V, sqrt<V>>("sqrt"), named<V, tanh<V>>("tanh"),
};

}  // namespace intact::float_steps
