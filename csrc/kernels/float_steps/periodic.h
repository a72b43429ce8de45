// Sine and cosine: numerics.floats.trigonometry and range_reduction, once for every register.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "kernels/float_steps/functions.h"

namespace intact::float_steps {

constexpr float kSin[] = {-0.166666641831398f, 0.008332747966051102f, -0.00019587756833061576f};
constexpr float kCos[] = {0.0416666641831398f, -0.001388830249197781f, 2.4547787688788958e-05f};
// pi / 2 in parts of 8 bits, and what is left.
constexpr float kQuarter[] = {1.5703125f, 0.0004825592041015625f, 1.2665987014770508e-06f,
                              9.92093629470503e-10f};
constexpr float kLargeAngle = 65536.0f;
// 2 / pi, from 2^0 downwards.
constexpr uint64_t kTwoOverPi[] = {0, 0xa2f9836e, 0x4e441529, 0xfc2757d1, 0xf534ddc0, 0xdb629599, 0x3c439041};

// Of one finite number beyond kLargeAngle, in integers: x 2 / pi modulo 4 in 64 bits, of which two are n.
template <class V>
INTACT_INLINE float large_turn(float x, int32_t& n) {
  const auto bits = std::bit_cast<uint32_t>(x) & 0x7fffffffu;
  const uint64_t whole = (bits & 0x7fffffu) | 0x800000u;
  const uint32_t start = (bits >> 23) - 120, word = start / 32, shift = start % 32;
  const uint64_t high = kTwoOverPi[word] << 32 | kTwoOverPi[word + 1];
  const uint64_t window = (high << shift) | (kTwoOverPi[word + 2] >> (32 - shift));
  const uint64_t product = whole * window;
  const uint64_t turns = (product + (uint64_t{1} << 61)) >> 62;
  const auto rest = static_cast<int32_t>(static_cast<int64_t>(product - (turns << 62)) >> 32);
  const float r = static_cast<float>(rest) * 1.4629181e-09f;
  const auto count = static_cast<int32_t>(turns);
  n = x < 0 ? -count : count;
  return x < 0 ? -r : r;
}

// r and n with x = r + n pi / 2 and |r| <= pi / 4; of n its lower bits count.
template <class V>
INTACT_INLINE F<V> quarter_turns(F<V> x, typename V::Ints& n) {
  const F<V> shifted = x * V::set(0.63661975f) + V::set(kRounder);
  const F<V> whole = shifted - V::set(kRounder);
  F<V> r = x;
  for (const float part : kQuarter) r = r - whole * V::set(part);
  n = V::bits(shifted);
  if (V::any(V::less(V::set(kLargeAngle), V::abs(x)))) [[unlikely]] {
    float angles[V::kWidth], rests[V::kWidth];
    int32_t turns[V::kWidth];
    V::store(angles, x);
    V::store(rests, r);
    V::store_int(turns, n);
    for (size_t i = 0; i < V::kWidth; ++i) {
      const float magnitude = angles[i] < 0 ? -angles[i] : angles[i];
      const bool large = magnitude > kLargeAngle && magnitude <= std::numeric_limits<float>::max();
      if (large) rests[i] = large_turn<V>(angles[i], turns[i]);
    }
    r = V::load(rests);
    n = V::load_int(turns);
  }
  return r;
}

// sin(x + quarters pi / 2).
template <class V>
INTACT_INLINE F<V> sine_from(F<V> x, int32_t quarters) {
  typename V::Ints n;
  const F<V> r = quarter_turns<V>(x, n), square = r * r;
  n = V::add_int(n, V::set_int(quarters));
  const F<V> sine = V::with_sign(polynomial<V>(kSin, square) * square * r + r, r);  // of a zero, too
  const F<V> cosine = (polynomial<V>(kCos, square) * square - V::set(0.5f)) * square + V::set(1.0f);
  const auto bit = [&](int32_t mask) {
    return V::less(V::set(0.5f), V::to_float(V::and_int(n, V::set_int(mask))));
  };
  return V::select(bit(1), cosine, sine) * V::select(bit(2), V::set(-1.0f), V::set(1.0f));
}

template <class V>
INTACT_INLINE F<V> sin(F<V> x) {
  return sine_from<V>(x, 0);
}

template <class V>
INTACT_INLINE F<V> cos(F<V> x) {
  return sine_from<V>(x, 1);
}

template <class V>
constexpr NamedFunction kPeriodic[] = {
    rare<V, cos<V>>("cos"),
    rare<V, sin<V>>("sin"),
};

}  // namespace intact::float_steps
