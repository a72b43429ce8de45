// The loops of the family, once for every register (base/vector/vector.h).
#pragma once

#include <cstring>

#include "base/vector/vector.h"
#include "kernels/pointwise/pointwise.h"

namespace intact::pointwise_loops {

using vec::F;
using vec::I;

template <class V>
class Values {
 public:
  INTACT_INLINE explicit Values(Operand o) : zero_(V::set_int(o.zero)), multiplier_(V::set(o.multiplier)) {}

  INTACT_INLINE void of(typename V::Bytes x, F<V> (&v)[4]) const {
    I<V> bytes[4];
    vec::widen<V>(x, bytes);
    INTACT_UNROLL("GCC unroll 4")
    for (int k = 0; k < 4; ++k) v[k] = V::to_float(V::sub_int(bytes[k], zero_)) * multiplier_;
  }

 private:
  I<V> zero_;
  F<V> multiplier_;
};

// body(index, load, store) for whole registers of bytes, then for what is left.
template <class V, class Body>
INTACT_INLINE void for_each_bytes(size_t n, uint8_t* y, const Body& body) {
  size_t i = 0;
  const auto whole = [](const uint8_t* p) INTACT_INLINE_BODY { return V::load_bytes(p); };
  for (; i + V::kBytes <= n; i += V::kBytes) V::store_bytes(y + i, body(i, whole));
  if (i == n) return;
  const auto part = [&](const uint8_t* p) INTACT_INLINE_BODY { return V::load_bytes_part(p, n - i); };
  V::store_bytes_part(y + i, body(i, part), n - i);
}

// divide(sum): that, divided by the scale of y.
template <class V, class Divide>
INTACT_INLINE void add_and_divide(const uint8_t* a, Operand from_a, const uint8_t* b, Operand from_b,
                                  size_t n, const ByteGrid& grid, uint8_t* y, const Divide& divide) {
  const Values<V> left(from_a), right(from_b);
  const vec::ToBytes<V> bytes(grid);
  for_each_bytes<V>(n, y, [&](size_t i, const auto& load) INTACT_INLINE_BODY {
    F<V> u[4], v[4];
    left.of(load(a + i), u);
    right.of(load(b + i), v);
    INTACT_UNROLL("GCC unroll 4")
    for (int k = 0; k < 4; ++k) v[k] = divide(u[k] + v[k]);
    return bytes.of(v);
  });
}

template <class V>
void add(const uint8_t* a, Operand from_a, const uint8_t* b, Operand from_b, size_t n, const Divisor& divisor,
         const ByteGrid& grid, uint8_t* y) {
  const F<V> scale = V::set(divisor.scale), high = V::set(divisor.high), low = V::set(divisor.low);
  const auto quotient = [&](F<V> sum) INTACT_INLINE_BODY { return V::fma(sum, high, sum * low); };
  const auto divided = [&](F<V> sum) INTACT_INLINE_BODY { return sum / scale; };
  divisor.exact ? add_and_divide<V>(a, from_a, b, from_b, n, grid, y, quotient)
                : add_and_divide<V>(a, from_a, b, from_b, n, grid, y, divided);
}

template <class V>
void rescale(const uint8_t* x, Operand from, size_t n, const ByteGrid& grid, uint8_t* y) {
  const Values<V> values(from);
  const vec::ToBytes<V> bytes(grid);
  for_each_bytes<V>(n, y, [&](size_t i, const auto& load) INTACT_INLINE_BODY {
    F<V> v[4];
    values.of(load(x + i), v);
    return bytes.of(v);
  });
}

// One load after the other, eight under way at once: for sets that cannot look up 256 entries in registers.
template <class V>
void lookup_by_loads(const uint8_t* x, const uint8_t* table, size_t n, uint8_t* y) {
  size_t i = 0;
  for (; i + 8 <= n; i += 8) {
    uint64_t in, out = 0;
    std::memcpy(&in, x + i, 8);
    for (int k = 0; k < 64; k += 8) out |= static_cast<uint64_t>(table[in >> k & 255]) << k;
    std::memcpy(y + i, &out, 8);
  }
  for (; i < n; ++i) y[i] = table[x[i]];
}

template <class V>
constexpr PointwiseOps ops_of(decltype(PointwiseOps::lookup) lookup) {
  return {add<V>, rescale<V>, lookup};
}

}  // namespace intact::pointwise_loops
