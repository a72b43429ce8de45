// Loops that apply a function to rows, and the rows of tables of functions, once for every register
// (base/vector/vector.h).
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/vector/vector.h"
#include "kernels/float_steps/float_steps.h"

namespace intact::float_steps {

using vec::F;
using vec::for_each;
using vec::load;
using vec::store;

template <class V, F<V> (*function)(F<V>)>
void map(const float* x, float* y, size_t n) {
  for_each<V>(
      n, [&](size_t i, size_t k) INTACT_INLINE_BODY { store<V>(y + i, function(load<V>(x + i, k)), k); });
}

template <class V, F<V> (*function)(F<V>)>
void map_codes(const float* x, size_t n, const CurveCodes& c, uint8_t* q) {
  const F<V> factor = V::set(c.factor), offset = V::set(c.offset);
  const vec::Quotients<V> quotients(c.scale, c.grid);
  for_each<V>(n, [&](size_t i, size_t k) INTACT_INLINE_BODY {
    const F<V> y = function(load<V>(x + i, k)) * factor + offset;
    vec::store_u8<V>(q + i, quotients.of(y), k);
  });
}

// The same by way of floats, a part of the first cache at a time. q may begin where x does.
template <class V>
INTACT_APART void codes_by_parts(RealFunction function, const float* x, size_t n, const CurveCodes& c,
                                 uint8_t* q) {
  constexpr size_t kPart = 256;
  alignas(64) float y[kPart];
  const F<V> factor = V::set(c.factor), offset = V::set(c.offset);
  const vec::Quotients<V> quotients(c.scale, c.grid);
  for (size_t part = 0; part < n; part += kPart) {
    const size_t count = n - part < kPart ? n - part : kPart;
    function(x + part, y, count);
    for_each<V>(count, [&](size_t i, size_t k) INTACT_INLINE_BODY {
      vec::store_u8<V>(q + part + i, quotients.of(load<V>(y + i, k) * factor + offset), k);
    });
  }
}

template <class V, F<V> (*function)(F<V>)>
void map_codes_by_parts(const float* x, size_t n, const CurveCodes& c, uint8_t* q) {
  codes_by_parts<V>(map<V, function>, x, n, c, q);
}

// A function with a loop of its own to codes, as activations have.
template <class V, F<V> (*function)(F<V>)>
constexpr NamedFunction named(const char* name, const SmoothFunction* smooth = nullptr) {
  return {name, map<V, function>, map_codes<V, function>, smooth};
}
template <class V, F<V> (*function)(F<V>)>
constexpr NamedFunction rare(const char* name) {
  return {name, map<V, function>, map_codes_by_parts<V, function>, nullptr};
}

// The rows of several tables, and the one that ends a table.
template <size_t n>
struct FunctionTable {
  NamedFunction rows[n + 1];
};
template <size_t... n>
consteval auto join(const NamedFunction (&... tables)[n]) {
  FunctionTable<(n + ...)> joined{};
  size_t end = 0;
  const auto append = [&](const auto& table) {
    for (const NamedFunction& row : table) joined.rows[end++] = row;
  };
  (append(tables), ...);
  return joined;
}

}  // namespace intact::float_steps
