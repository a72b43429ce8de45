// The vector layer: what the generic.h of a family is written over. An instruction set is a type V of static
// functions, as thin as the intrinsics behind them. It has internal linkage, so that no two sets ever share
// an instance of a template.
//
//   kWidth             lanes of 32 bits, a divisor of 16; kBytes = 4 * kWidth
//   Floats             + - * /, each rounded by itself
//   Ints, Words, Bytes lanes of 32, 16 and 8 bits; arithmetic wraps unless it says otherwise
//   Mask               true or false for each lane of 32 bits
//
// Memory, unaligned: load, store, load_int, store_int, load_bytes, store_bytes, and with _part(.., n) the
// first n < kWidth elements (kBytes of Bytes), no other touched: load_part fills up with `fill`, the others
// with 0.
//   load_u8, load_s8, load_u16         kWidth of them to Ints; load_u8 and load_s8 have a _part too
//   store_u8, store_u16                the low bits of Ints, which store_u16 wants below 2^16; store_u8_part
//   from_f16, to_f16, from_f64, to_f64 kWidth of the others from and to Floats, rounded to nearest even
//
// Floats:
//   set, abs, sqrt, root (one number), with_sign(v, sign), keep(v, n): +0 behind the first n
//   fma(a, b, c)                       a * b + c, rounded once; on AVX2 the CPU needs FMA too (isa::fma)
//   larger, smaller                    of a and b; b where neither is, or where one is a NaN
//   round, to_int, to_float            to nearest even; what no integer holds, to_int makes a very large or
//                                      very small one
//   truncate                           of what fits; anything for what does not
//   is_nan, less, less_equal -> Mask;  select(mask, yes, no), also of Ints;  only(mask, v): +0 elsewhere
//   both, either, any, all             of masks
//   smallest_of, largest_of, largest_int_of, tree(lanes): i + 8, i + 4, i + 2, i + 1 of 16 lanes
// Ints:
//   set_int, add_int, sub_int, and_int, or_int, multiply_int, larger_int, bits, floats
//   shift_left<n>, shift_right<n> (zeros), shift_down<n> (signs)
//   lookup(table, i): entry i % 8 of 8 floats
//
// Bytes, in the order in which unpacking leaves them within 128 bits; packing restores it:
//   set_bytes, larger_bytes, smaller_bytes, low8, high8, low16, high16 (neighbours from a and b by turns)
//   set_words, add_words, sub_words, shift_words<n> (left), add_words_saturated
//   load_words (of signed or unsigned bytes), store_words
//   ints_of, words_of, bytes_of        the same bits
//   pack_words(ints, ints), pack_bytes(words, words)  saturated: to signed words, to unsigned bytes
//
// For what is too short: V::Half is a set of half the width, V::Narrow one whose Bytes are 16. Of the above
// it has the bytes, and
//   load_8, store_8 (of the low half), low32, high32, low64, high64
//   store_threes(p, a, b, c)           a byte of each by turns
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/byte_grid.h"
#include "base/inline.h"

namespace intact::vec {

template <class V>
using F = typename V::Floats;
template <class V>
using I = typename V::Ints;

// body(index, elements): elements is V::kWidth but for the last, smaller one.
template <class V, class Body>
INTACT_INLINE void for_each(size_t n, const Body& body) {
  size_t i = 0;
  for (; i + V::kWidth <= n; i += V::kWidth) body(i, V::kWidth);
  if (i < n) body(i, n - i);
}

template <class V>
INTACT_INLINE F<V> load(const float* x, size_t n, float fill = 0.0f) {
  return n == V::kWidth ? V::load(x) : V::load_part(x, n, fill);
}

template <class V>
INTACT_INLINE void store(float* y, F<V> v, size_t n) {
  if (n == V::kWidth) {
    V::store(y, v);
  } else {
    V::store_part(y, v, n);
  }
}

template <class V>
INTACT_INLINE I<V> load_u8(const uint8_t* q, size_t n) {
  return n == V::kWidth ? V::load_u8(q) : V::load_u8_part(q, n);
}

template <class V>
INTACT_INLINE I<V> load_s8(const uint8_t* q, size_t n) {
  return n == V::kWidth ? V::load_s8(q) : V::load_s8_part(q, n);
}

template <class V>
INTACT_INLINE void store_u8(uint8_t* q, I<V> v, size_t n) {
  if (n == V::kWidth) {
    V::store_u8(q, v);
  } else {
    V::store_u8_part(q, v, n);
  }
}

// x and a bound: x where they are equal, and a NaN stays one.
template <class V>
INTACT_INLINE F<V> at_least(F<V> x, F<V> low) {
  return V::larger(low, x);
}
template <class V>
INTACT_INLINE F<V> at_most(F<V> x, F<V> high) {
  return V::smaller(high, x);
}

// Between the bounds; a NaN becomes `low`.
template <class V>
INTACT_INLINE F<V> bounded(F<V> x, F<V> low, F<V> high) {
  return V::smaller(V::larger(x, low), high);
}

// The bytes of four registers, a, b, c and d by turns.
template <class V>
INTACT_INLINE void spread(typename V::Bytes a, typename V::Bytes b, typename V::Bytes c, typename V::Bytes d,
                          I<V> (&out)[4]) {
  const auto ab_low = V::low8(a, b), ab_high = V::high8(a, b);
  const auto cd_low = V::low8(c, d), cd_high = V::high8(c, d);
  out[0] = V::ints_of(V::low16(ab_low, cd_low));
  out[1] = V::ints_of(V::high16(ab_low, cd_low));
  out[2] = V::ints_of(V::low16(ab_high, cd_high));
  out[3] = V::ints_of(V::high16(ab_high, cd_high));
}

// Each byte of a register as an integer.
template <class V>
INTACT_INLINE void widen(typename V::Bytes x, I<V> (&out)[4]) {
  const auto none = V::set_bytes(0);
  spread<V>(x, none, none, none, out);
}

// to_byte of four registers as widen() leaves them. Steps must not be NaN. What is too small for an integer
// becomes the smallest one, which is right; what is too large is bounded before it is rounded.
template <class V>
class ToBytes {
 public:
  INTACT_INLINE explicit ToBytes(const ByteGrid& g)
      : high_(V::set(static_cast<float>(g.high - g.zero))),
        zero_(V::set_words(g.zero)),
        low_(V::set_bytes(g.low)) {}

  INTACT_INLINE typename V::Bytes of(const F<V> (&v)[4]) const {
    return V::larger_bytes(V::pack_bytes(words(v[0], v[1]), words(v[2], v[3])), low_);
  }

 private:
  INTACT_INLINE typename V::Words words(F<V> a, F<V> b) const {
    return V::add_words_saturated(V::pack_words(rounded(a), rounded(b)), zero_);
  }
  INTACT_INLINE I<V> rounded(F<V> v) const { return V::to_int(V::smaller(v, high_)); }

  F<V> high_;
  typename V::Words zero_;
  typename V::Bytes low_;
};

// to_byte(x / scale), of one scale: x * (1 / scale) decides, except close to a tie, where x is divided. The
// product is within 2^-22 of the quotient, relatively, so that the two round to the same integer unless a tie
// lies closer than that. A NaN gives the low end.
template <class V>
class Quotients {
 public:
  INTACT_INLINE Quotients(float scale, const ByteGrid& g)
      : Quotients(scale, g.low - g.zero, g.high - g.zero, g.zero) {}

  // clamp(rne(x / scale), low, high) + zero.
  INTACT_INLINE Quotients(float scale, int32_t low, int32_t high, int32_t zero)
      : scale_(V::set(scale)),
        inverse_(V::set(1 / scale)),
        low_(V::set(static_cast<float>(low))),
        high_(V::set(static_cast<float>(high))),
        shift_(V::set_int(zero)) {
    const int32_t most = (low < 0 ? -low : low) + (high < 0 ? -high : high) + 1;
    // A scale whose inverse is no ordinary number always has x divided.
    const bool plain = scale >= 0x1p-100f && scale <= 0x1p100f && most < kMostSteps;
    close_ = V::set(plain ? 0.5f - static_cast<float>(most) * 0x1p-22f : -1.0f);
  }

  INTACT_INLINE I<V> of(F<V> x) const {
    const F<V> steps = bounded<V>(x * inverse_, low_, high_);
    I<V> code = V::to_int(steps);
    if (V::any(V::less(close_, V::abs(steps - V::to_float(code))))) [[unlikely]] {
      code = V::to_int(bounded<V>(x / scale_, low_, high_));
    }
    return V::add_int(code, shift_);
  }

 private:
  static constexpr int32_t kMostSteps = 1 << 16;
  F<V> scale_, inverse_, low_, high_, close_;
  I<V> shift_;
};

}  // namespace intact::vec
