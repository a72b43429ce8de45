// The kernels that multiply four taps of one channel at a time, for any register width `V`: taps are
// interleaved by unpacking within 128-bit lanes. All lanes of a block stand in the order in which unpacking
// leaves them: lane i of vector k is channel 16 * (i / 4) + 4 * k + i % 4; packing restores the order.
// Included by files of one instruction set each, which define the widths.
#pragma once

#include <cstring>

#include "kernels/depthwise/depthwise.h"

#define INTACT_INLINE inline __attribute__((always_inline))

// What a width needs that all instruction sets spell alike.
#define INTACT_LANES(kBytes, Integers, Floats, P)                                              \
  using Int = Integers;                                                                        \
  using Float = Floats;                                                                        \
  static constexpr int kWidth = kBytes;                                                        \
  static INTACT_INLINE Float loadf(const float* p) { return P##_loadu_ps(p); }                 \
  static INTACT_INLINE void storef(float* p, Float v) { P##_storeu_ps(p, v); }                 \
  static INTACT_INLINE Int zero() { return P##_set1_epi32(0); }                                \
  static INTACT_INLINE Int low8(Int a, Int b) { return P##_unpacklo_epi8(a, b); }              \
  static INTACT_INLINE Int high8(Int a, Int b) { return P##_unpackhi_epi8(a, b); }             \
  static INTACT_INLINE Int low16(Int a, Int b) { return P##_unpacklo_epi16(a, b); }            \
  static INTACT_INLINE Int high16(Int a, Int b) { return P##_unpackhi_epi16(a, b); }           \
  static INTACT_INLINE Float real(Int v) { return P##_cvtepi32_ps(v); }                        \
  static INTACT_INLINE Int rounded(Float v) { return P##_cvtps_epi32(v); }                     \
  static INTACT_INLINE Float mul(Float a, Float b) { return P##_mul_ps(a, b); }                \
  static INTACT_INLINE Float add(Float a, Float b) { return P##_add_ps(a, b); }                \
  static INTACT_INLINE Float least(Float a, Float b) { return P##_min_ps(a, b); }              \
  static INTACT_INLINE Float most(Float a, Float b) { return P##_max_ps(a, b); }               \
  static INTACT_INLINE Float all(float v) { return P##_set1_ps(v); }                           \
  static INTACT_INLINE Int all16(int v) { return P##_set1_epi16(static_cast<int16_t>(v)); }    \
  static INTACT_INLINE Int all8(int v) { return P##_set1_epi8(static_cast<char>(v)); }         \
  static INTACT_INLINE Int minus(Int a, int b) { return P##_sub_epi32(a, P##_set1_epi32(b)); } \
  static INTACT_INLINE Int words(Int a, Int b) { return P##_packs_epi32(a, b); }               \
  static INTACT_INLINE Int plus(Int a, Int b) { return P##_adds_epi16(a, b); }                 \
  static INTACT_INLINE Int bytes(Int a, Int b) { return P##_packus_epi16(a, b); }              \
  static INTACT_INLINE Int within(Int v, Int low, Int high) {                                  \
    return P##_min_epu8(P##_max_epu8(v, low), high);                                           \
  }

namespace intact {
namespace {
namespace fours {

// Groups of four taps: the columns of a kernel of three rows, so that neighbouring outputs share them; else
// all taps in a row.
int groups_of(int kernel_h, int kernel_w) { return kernel_h == 3 ? kernel_w : (kernel_h * kernel_w + 3) / 4; }

// The tap at a place of a group: row * kernel_w + column, or -1.
int tap_at(int kernel_h, int kernel_w, int group, int place) {
  if (kernel_h == 3) return place == 3 ? -1 : place * kernel_w + group;
  const int tap = 4 * group + place;
  return tap < kernel_h * kernel_w ? tap : -1;
}

size_t bytes_of_block(int width, int groups) { return static_cast<size_t>(width) * (12 + 4 * groups); }

// The lanes that the rest of the channels get, of at most `most`.
int width_of(int channels, int most) { return most == 64 && channels > 48 ? 64 : channels > 16 ? 32 : 16; }

size_t packed_bytes(const DepthwiseWeights& w, int most) {
  size_t n = 0;
  for (int c = 0, width; c < w.channels; c += width) {
    width = width_of(w.channels - c, most);
    n += bytes_of_block(width, groups_of(w.kernel_h, w.kernel_w));
  }
  return n;
}

uint8_t* pack_block(const DepthwiseWeights& w, int channel, int width, uint8_t* to) {
  auto* correction = reinterpret_cast<int32_t*>(to);
  auto* multiplier = reinterpret_cast<float*>(correction + width);
  float* bias = multiplier + width;
  auto* weight = reinterpret_cast<int8_t*>(bias + width);
  const int groups = groups_of(w.kernel_h, w.kernel_w);
  for (int i = 0; i < width; ++i) {
    const int vector = i / (width / 4), lane = i % (width / 4);
    const int c = channel + 16 * (lane / 4) + 4 * vector + lane % 4;
    const bool exists = c < w.channels;
    correction[i] = exists ? w.correction[c] : 0;
    multiplier[i] = exists ? w.multiplier[c] : 0;
    bias[i] = exists ? w.bias[c] : 0;
    for (int g = 0; g < groups; ++g) {
      for (int place = 0; place < 4; ++place) {
        const int tap = tap_at(w.kernel_h, w.kernel_w, g, place);
        weight[(g * width + i) * 4 + place] = exists && tap >= 0 ? w.weight[tap * w.channels + c] : 0;
      }
    }
  }
  return to + bytes_of_block(width, groups);
}

void pack(const DepthwiseWeights& w, int most, uint8_t* packed) {
  for (int c = 0, width; c < w.channels; c += width) {
    width = width_of(w.channels - c, most);
    packed = pack_block(w, c, width, packed);
  }
}

// One block of channels of one row of outputs.
struct Block {
  const DepthwiseRow& d;
  const uint8_t* packed;
  int channel;
  int channels;  // at most the width
};

template <class V>
INTACT_INLINE void spread(typename V::Int a, typename V::Int b, typename V::Int c, typename V::Int d,
                          typename V::Int (&out)[4]) {
  const auto ab_low = V::low8(a, b), ab_high = V::high8(a, b);
  const auto cd_low = V::low8(c, d), cd_high = V::high8(c, d);
  out[0] = V::low16(ab_low, cd_low);
  out[1] = V::high16(ab_low, cd_low);
  out[2] = V::low16(ab_high, cd_high);
  out[3] = V::high16(ab_high, cd_high);
}

// What most layers end in has loops of its own.
enum class End { bytes, bytes_and_residual, any };

template <class V, bool kTail, End kEnd>
class Worker {
 public:
  explicit Worker(const Block& b)
      : d_(b.d),
        x_(b.d.x + b.channel),
        y_(b.d.y + b.channel * (b.d.epilogue.floats ? 4 : 1)),
        residual_(b.d.residual == nullptr ? nullptr : b.d.residual + b.channel),
        correction_(reinterpret_cast<const int32_t*>(b.packed)),
        multiplier_(reinterpret_cast<const float*>(correction_ + V::kWidth)),
        bias_(multiplier_ + V::kWidth),
        weight_(reinterpret_cast<const uint8_t*>(bias_ + V::kWidth)),
        mask_(V::mask(b.channels)),
        bytes_(static_cast<size_t>(b.channels) * 4),
        zero_(V::all16(d_.epilogue.zero_point)),
        low_(V::all8(d_.epilogue.low)),
        high_(V::all8(d_.epilogue.high)),
        gain_(V::all(d_.epilogue.residual_multiplier)) {}

  // Columns of three taps stay in registers for all outputs that read them.
  template <int kStride>
  INTACT_INLINE void three_by_three() {
    Int columns[3][4];
    const uint8_t* x = x_;
    for (int i = 0; i < 3 - kStride; ++i, x += d_.x_column) column(x, columns[i]);
    const auto output = [&]<int kFirst>() __attribute__((always_inline)) {
#pragma GCC unroll 2
      for (int i = 3 - kStride; i < 3; ++i, x += d_.x_column) column(x, columns[(kFirst + i) % 3]);
      Int acc[4];
      start(acc);
#pragma GCC unroll 3
      for (int i = 0; i < 3; ++i) multiply(acc, columns[(kFirst + i) % 3], i);
      finish(acc);
    };
    for (size_t p = 0; p < d_.pixels; ++p) {
      output.template operator()<0>();
      if (++p == d_.pixels) break;
      output.template operator()<kStride % 3>();
      if (++p == d_.pixels) break;
      output.template operator()<2 * kStride % 3>();
    }
  }

  void any(const ptrdiff_t* offsets, int groups) {
    for (size_t p = 0; p < d_.pixels; ++p, x_ += d_.x_pixel) {
      Int acc[4], taps[4];
      start(acc);
      for (int g = 0; g < groups; ++g) {
        const ptrdiff_t* o = offsets + 4 * g;
        spread<V>(load(x_ + o[0]), load(x_ + o[1]), load(x_ + o[2]), load(x_ + o[3]), taps);
        multiply(acc, taps, g);
      }
      finish(acc);
    }
  }

 private:
  using Int = typename V::Int;
  using Float = typename V::Float;

  INTACT_INLINE Int load(const uint8_t* p) const { return kTail ? V::load(p, mask_) : V::load(p); }

  INTACT_INLINE void column(const uint8_t* x, Int (&taps)[4]) const {
    spread<V>(load(x), load(x + d_.x_row), load(x + 2 * d_.x_row), V::zero(), taps);
  }

  INTACT_INLINE void start(Int (&acc)[4]) const {
#pragma GCC unroll 4
    for (int k = 0; k < 4; ++k) acc[k] = V::load(correction_ + k * V::kWidth / 4);
  }

  INTACT_INLINE void multiply(Int (&acc)[4], const Int (&taps)[4], int group) const {
#pragma GCC unroll 4
    for (int k = 0; k < 4; ++k) {
      acc[k] = V::dot(acc[k], taps[k], V::load(weight_ + (group * 4 + k) * V::kWidth));
    }
  }

  INTACT_INLINE void finish(const Int (&acc)[4]) {
    Float v[4];
#pragma GCC unroll 4
    for (int k = 0; k < 4; ++k) {
      v[k] = V::mul(V::real(acc[k]), V::loadf(multiplier_ + k * V::kWidth / 4));
      v[k] = V::add(v[k], V::loadf(bias_ + k * V::kWidth / 4));
    }
    if (kEnd == End::bytes_and_residual || (kEnd == End::any && residual_ != nullptr)) add_residual(v);
    if (kEnd == End::any && d_.epilogue.floats) {
      store_floats(v);
    } else {
      if (kEnd == End::any) bound(v);
      const Int ab = V::plus(V::words(V::rounded(v[0]), V::rounded(v[1])), zero_);
      const Int cd = V::plus(V::words(V::rounded(v[2]), V::rounded(v[3])), zero_);
      const Int bytes = V::within(V::bytes(ab, cd), low_, high_);
      kTail ? V::store(y_, mask_, bytes) : V::store(y_, bytes);
    }
    y_ += d_.y_pixel;
  }

  // What is too small for an integer becomes the smallest one, which is right; too large would too.
  INTACT_INLINE void bound(Float (&v)[4]) const {
#pragma GCC unroll 4
    for (int k = 0; k < 4; ++k) v[k] = V::least(v[k], V::all(1 << 16));
  }

  INTACT_INLINE void add_residual(Float (&v)[4]) {
    Int r[4];
    spread<V>(load(residual_), V::zero(), V::zero(), V::zero(), r);
    residual_ += d_.residual_pixel;
#pragma GCC unroll 4
    for (int k = 0; k < 4; ++k) {
      v[k] = V::add(v[k], V::mul(V::real(V::minus(r[k], d_.epilogue.residual_zero_point)), gain_));
    }
  }

  void store_floats(const Float (&v)[4]) const {
    constexpr int kLanes = V::kWidth / 4;
    alignas(64) float lanes[4][kLanes], ordered[V::kWidth];
    for (int k = 0; k < 4; ++k) {
      const Float low = V::all(d_.epilogue.real_low), high = V::all(d_.epilogue.real_high);
      V::storef(lanes[k], V::least(V::most(v[k], low), high));
      for (int i = 0; i < kLanes; i += 4) std::memcpy(ordered + 4 * i + 4 * k, lanes[k] + i, 16);
    }
    std::memcpy(y_, ordered, bytes_);
  }

  const DepthwiseRow& d_;
  const uint8_t* x_;
  uint8_t* y_;
  const uint8_t* residual_;
  const int32_t* correction_;
  const float* multiplier_;
  const float* bias_;
  const uint8_t* weight_;
  typename V::Mask mask_;
  size_t bytes_;  // of the floats of one pixel
  Int zero_, low_, high_;
  Float gain_;
};

template <class V, bool kTail, End kEnd>
void work(const Block& b, const ptrdiff_t* offsets, int groups) {
  const DepthwiseRow& d = b.d;
  Worker<V, kTail, kEnd> worker(b);
  const bool three = d.kernel_h == 3 && d.kernel_w == 3;
  if (three && d.x_pixel == d.x_column) return worker.template three_by_three<1>();
  if (three && d.x_pixel == 2 * d.x_column) return worker.template three_by_three<2>();
  worker.any(offsets, groups);
}

template <class V, bool kTail>
void work(const Block& b, const ptrdiff_t* offsets, int groups) {
  if (b.d.epilogue.floats || !b.d.epilogue.bounded) return work<V, kTail, End::any>(b, offsets, groups);
  if (b.d.residual != nullptr) return work<V, kTail, End::bytes_and_residual>(b, offsets, groups);
  work<V, kTail, End::bytes>(b, offsets, groups);
}

template <class V>
void work(const Block& b, const ptrdiff_t* offsets, int groups) {
  b.channels == V::kWidth ? work<V, false>(b, offsets, groups) : work<V, true>(b, offsets, groups);
}

// `work(block, width, offsets, groups)` for every block of the row.
template <int kMost, class Work>
void each_block(const DepthwiseRow& d, const Work& work) {
  const int groups = groups_of(d.kernel_h, d.kernel_w);
  ptrdiff_t offsets[4 * kMostTaps];
  for (int i = 0; i < 4 * groups; ++i) {
    const int tap = tap_at(d.kernel_h, d.kernel_w, i / 4, i % 4);
    offsets[i] = tap < 0 ? 0 : tap / d.kernel_w * d.x_row + tap % d.kernel_w * d.x_column;
  }
  const bool whole = d.end * kMost < static_cast<size_t>(d.channels);
  const int end = whole ? static_cast<int>(d.end) * kMost : d.channels;
  const uint8_t* packed = d.packed + d.begin * bytes_of_block(kMost, groups);
  for (int c = static_cast<int>(d.begin) * kMost, width = 0; c < end; c += width) {
    width = width_of(d.channels - c, kMost);
    const Block block = {d, packed, c, d.channels - c < width ? d.channels - c : width};
    work(block, width, offsets, groups);
    packed += bytes_of_block(width, groups);
  }
}

}  // namespace fours
}  // namespace
}  // namespace intact
