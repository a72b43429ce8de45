// The loops of the family, once for every register (base/vector/vector.h): vectors of neighbouring channels,
// of which the last one overlaps the one before it; half as wide where there are too few.
#pragma once

#include "base/vector/vector.h"
#include "kernels/pool/pool.h"

namespace intact::pool_loops {

using vec::F;
using vec::I;

template <class V, int kVectors>
INTACT_INLINE void max_vectors(const uint8_t* x, const PoolWindow& w, uint8_t* y) {
  constexpr auto kStep = static_cast<ptrdiff_t>(V::kBytes);
  typename V::Bytes most[kVectors];
  INTACT_UNROLL("GCC unroll 4")
  for (int v = 0; v < kVectors; ++v) most[v] = V::set_bytes(0);
  for (size_t t = 0; t < w.taps; ++t) {
    const uint8_t* const from = x + w.offsets[t];
    INTACT_UNROLL("GCC unroll 4")
    for (int v = 0; v < kVectors; ++v)
      most[v] = V::larger_bytes(most[v], V::load_bytes(from + v * V::kBytes));
  }
  INTACT_UNROLL("GCC unroll 4")
  for (int v = 0; v < kVectors; ++v) V::store_bytes(y + v * kStep, most[v]);
}

template <class V>
INTACT_INLINE void max_8(const uint8_t* x, const PoolWindow& w, uint8_t* y) {
  auto most = V::set_bytes(0);
  for (size_t t = 0; t < w.taps; ++t) most = V::larger_bytes(most, V::load_8(x + w.offsets[t]));
  V::store_8(y, most);
}

template <class V>
uint8_t max_1(const uint8_t* x, const PoolWindow& w) {
  uint8_t most = 0;
  for (size_t t = 0; t < w.taps; ++t) most = x[w.offsets[t]] > most ? x[w.offsets[t]] : most;
  return most;
}

template <class V>
INTACT_INLINE void max_pixel(const uint8_t* x, const PoolWindow& w, uint8_t* y) {
  constexpr size_t kStep = V::kBytes;
  size_t c = 0;
  if (w.channels >= kStep) {
    for (; c + 4 * kStep <= w.channels; c += 4 * kStep) max_vectors<V, 4>(x + c, w, y + c);
    for (; c + 2 * kStep <= w.channels; c += 2 * kStep) max_vectors<V, 2>(x + c, w, y + c);
    for (; c + kStep <= w.channels; c += kStep) max_vectors<V, 1>(x + c, w, y + c);
    if (c < w.channels) max_vectors<V, 1>(x + w.channels - kStep, w, y + w.channels - kStep);
  } else if constexpr (kStep > 16) {
    max_pixel<typename V::Half>(x, w, y);
  } else {
    for (; c + 8 <= w.channels; c += 8) max_8<V>(x + c, w, y + c);
    for (; c < w.channels; ++c) y[c] = max_1<V>(x + c, w);
  }
}

template <class V>
void max(const PoolWindow& w, size_t pixels, ptrdiff_t x_pixel, uint8_t* y, ptrdiff_t y_pixel) {
  const uint8_t* x = w.x;
  for (size_t p = 0; p < pixels; ++p, x += x_pixel, y += y_pixel) max_pixel<V>(x, w, y);
}

// kBytes channels: sums of 256 taps fit 16 bits, so these are widened as seldom.
template <class V>
INTACT_INLINE void mean_vector(const uint8_t* x, const PoolWindow& w, const PoolMean& m,
                               const vec::ToBytes<V>& bytes, uint8_t* y) {
  const auto none = V::set_bytes(0);
  const int64_t start = -static_cast<int64_t>(m.zero) * static_cast<int64_t>(w.taps);
  I<V> sums[4];
  for (I<V>& sum : sums) sum = V::set_int(static_cast<int32_t>(start));
  for (size_t t = 0; t < w.taps;) {
    auto low = V::words_of(none), high = low;
    for (const size_t end = w.taps - t > 256 ? t + 256 : w.taps; t < end; ++t) {
      const auto v = V::load_bytes(x + w.offsets[t]);
      low = V::add_words(low, V::words_of(V::low8(v, none)));
      high = V::add_words(high, V::words_of(V::high8(v, none)));
    }
    const auto a = V::bytes_of(low), b = V::bytes_of(high);
    sums[0] = V::add_int(sums[0], V::ints_of(V::low16(a, none)));
    sums[1] = V::add_int(sums[1], V::ints_of(V::high16(a, none)));
    sums[2] = V::add_int(sums[2], V::ints_of(V::low16(b, none)));
    sums[3] = V::add_int(sums[3], V::ints_of(V::high16(b, none)));
  }
  F<V> means[4];
  for (int k = 0; k < 4; ++k) means[k] = V::to_float(sums[k]) * V::set(m.multiplier);
  for (int k = 0; m.divides && k < 4; ++k) means[k] = means[k] / V::set(m.count) / V::set(m.scale);
  V::store_bytes(y, bytes.of(means));
}

template <class V>
uint8_t mean_1(const uint8_t* x, const PoolWindow& w, const PoolMean& m) {
  int64_t sum = -static_cast<int64_t>(m.zero) * static_cast<int64_t>(w.taps);
  for (size_t t = 0; t < w.taps; ++t) sum += x[w.offsets[t]];
  return to_byte(m.steps(static_cast<float>(static_cast<int32_t>(sum))), m.grid);
}

template <class V>
void mean(const PoolWindow& w, const PoolMean& m, uint8_t* y) {
  constexpr size_t kStep = V::kBytes;
  size_t c = 0;
  if (w.channels >= kStep) {
    const vec::ToBytes<V> bytes(m.grid);
    for (; c + kStep <= w.channels; c += kStep) mean_vector<V>(w.x + c, w, m, bytes, y + c);
    const size_t last = w.channels - kStep;
    if (c < w.channels) mean_vector<V>(w.x + last, w, m, bytes, y + last);
  } else if constexpr (kStep > 16) {
    mean<typename V::Half>(w, m, y);
  } else {
    for (; c < w.channels; ++c) y[c] = mean_1<V>(w.x + c, w, m);
  }
}

template <class V>
constexpr PoolOps ops_of() {
  return {max<V>, mean<V>};
}

}  // namespace intact::pool_loops
