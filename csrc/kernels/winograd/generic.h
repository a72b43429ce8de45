// The operations that loops.h needs of an instruction set, from the vector layer (base/vector/vector.h).
#pragma once

#include <cstring>

#include "base/vector/vector.h"
#include "kernels/winograd/loops.h"

namespace intact::winograd {
namespace {

template <class V>
struct Vectors {
  static constexpr int kWords = 2 * V::kWidth, kSums = V::kWidth;

  struct Words {
    typename V::Words v;
    static INTACT_INLINE Words load(const uint8_t* p) { return {V::load_words(p)}; }
    static INTACT_INLINE Words load_signed(const int8_t* p) { return {V::load_words(p)}; }
    static INTACT_INLINE Words zero() { return {V::set_words(0)}; }
    INTACT_INLINE void store(int16_t* p) const { V::store_words(p, v); }
    template <int kBits>
    INTACT_INLINE Words times() const {
      return {V::template shift_words<kBits>(v)};
    }
    friend INTACT_INLINE Words operator+(Words a, Words b) { return {V::add_words(a.v, b.v)}; }
    friend INTACT_INLINE Words operator-(Words a, Words b) { return {V::sub_words(a.v, b.v)}; }
  };

  struct Sums {
    typename V::Ints v;
    static INTACT_INLINE Sums zero() { return {V::set_int(0)}; }
    static INTACT_INLINE Sums load(const int32_t* p) { return {V::load_int(p)}; }
    INTACT_INLINE void store(int32_t* p) const { V::store_int(p, v); }
    template <int kBits>
    INTACT_INLINE Sums times() const {
      return {V::template shift_left<kBits>(v)};
    }
    template <int kBits>
    INTACT_INLINE Sums down() const {
      return {V::template shift_down<kBits>(v)};
    }
    INTACT_INLINE Sums times9th() const { return {V::multiply_int(v, V::set_int(kNinth))}; }
    friend INTACT_INLINE Sums operator+(Sums a, Sums b) { return {V::add_int(a.v, b.v)}; }
    friend INTACT_INLINE Sums operator-(Sums a, Sums b) { return {V::sub_int(a.v, b.v)}; }
  };
};

// For instructions that multiply neighbouring words; Dot::add adds the products to a sum.
template <class V, class Dot>
struct Neighbours : Vectors<V> {
  using Pairs = typename V::Ints;
  using typename Vectors<V>::Sums;
  static INTACT_INLINE Pairs pairs(const int16_t* p) { return V::load_int(p); }
  static INTACT_INLINE Pairs pair(const int16_t* p) {
    int32_t two;
    std::memcpy(&two, p, 4);
    return V::set_int(two);
  }
  static INTACT_INLINE Sums dot(Sums s, Pairs a, Pairs b) { return {Dot::add(s.v, a, b)}; }
};

template <class Set>
constexpr WinogradOps ops_of(const GemmOps* gemm, int widest, const WinogradCost& cost,
                             void (*multiply)(const WinogradProduct&)) {
  return {gemm, widest, cost, transform_input<Set>, transform_weights<Set>, multiply, transform_output<Set>};
}

}  // namespace
}  // namespace intact::winograd
