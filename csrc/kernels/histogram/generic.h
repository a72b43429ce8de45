// The loops of the family, once for every register (base/vector/vector.h); the tail is the reference.
#pragma once

#include "base/vector/vector.h"
#include "kernels/histogram/histogram.h"

namespace intact::histogram_loops {

using vec::F;
using vec::I;

template <class V>
void pow2(const float* x, size_t n, const Pow2Bins& bins, uint32_t* slot, ValueRange& range) {
  const F<V> first = V::set(bins.first), second = V::set(bins.second);
  const F<V> end = V::set(static_cast<float>(bins.bins)), zero = V::set(0.0f);
  const F<V> inf = V::floats(V::set_int(0x7f800000));
  const I<V> none = V::set_int(0), half = V::set_int(static_cast<int32_t>(bins.bins));
  const I<V> rest = V::set_int(static_cast<int32_t>(2 * bins.bins));
  F<V> min = V::set(range.min), max = V::set(range.max);
  auto finite = V::less(zero, inf);
  size_t i = 0;
  for (; i + V::kWidth <= n; i += V::kWidth) {
    const F<V> v = V::load(x + i), size = V::abs(v);
    min = V::smaller(v, min);
    max = V::larger(v, max);
    finite = V::both(finite, V::less(size, inf));
    const F<V> position = size * first * second;
    const I<V> at = V::add_int(V::truncate(position), V::select(V::less(v, zero), half, none));
    V::store_int(slot + i, V::select(V::less(position, end), at, rest));
  }
  if (V::all(finite)) {
    range.min = V::smallest_of(min);
    range.max = V::largest_of(max);
  } else {  // rare, and about to be refused: let the reference sort it out, slots included
    i = 0;
  }
  histogram_ref.pow2(x + i, n - i, bins, slot + i, range);
}

template <class V>
void fixed(const float* x, size_t n, const FixedBins& bins, uint32_t* slot) {
  const F<V> width = V::set(bins.width), last = V::set(static_cast<float>(bins.bins - 1));
  const I<V> rest = V::set_int(static_cast<int32_t>(bins.bins));
  size_t i = 0;
  for (; i + V::kWidth <= n; i += V::kWidth) {
    const F<V> v = V::load(x + i);
    const I<V> bin =
        V::truncate(V::smaller(V::abs(v) / width, last));  // the last for infinity / infinity too
    V::store_int(slot + i, V::select(V::is_nan(v), rest, bin));
  }
  histogram_ref.fixed(x + i, n - i, bins, slot + i);
}

template <class V>
constexpr HistogramOps ops_of() {
  return {pow2<V>, fixed<V>};
}

}  // namespace intact::histogram_loops
