// The kernels that multiply four taps of one channel at a time, for any register width `V`: a set of the
// vector layer (base/vector/vector.h) and
//
//   Mask, mask(bytes)              of so many bytes: load_tail(p, mask), store_tail(p, v, mask)
//   dot(acc, x, w)                 + the sums of fours of unsigned x by signed w; a kernel that takes
//                                  something from x first has pack() put it into the corrections
//
// Taps are interleaved by unpacking within 128-bit lanes. All lanes of a block stand in the order in which
// unpacking leaves them: lane i of vector k is channel 16 * (i / 4) + 4 * k + i % 4; packing restores the
// order.
#pragma once

#include <cstring>

#include "base/vector/vector.h"
#include "kernels/depthwise/depthwise.h"

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
int width_of(int channels, int most) {
  if (most == 64 && channels > 48) return 64;
  return most >= 32 && channels > 16 ? 32 : 16;
}

size_t packed_bytes(const DepthwiseWeights& w, int most) {
  size_t n = 0;
  for (int c = 0, width; c < w.channels; c += width) {
    width = width_of(w.channels - c, most);
    n += bytes_of_block(width, groups_of(w.kernel_h, w.kernel_w));
  }
  return n;
}

// What a kernel takes from each byte before it multiplies, times the weights of a channel.
uint32_t shifted(const DepthwiseWeights& w, int channel, int shift) {
  int32_t sum = 0;
  for (int tap = 0; tap < w.kernel_h * w.kernel_w; ++tap) sum += w.weight[tap * w.channels + channel];
  return static_cast<uint32_t>(sum * shift * (w.joins ? 257 : 1));
}

uint8_t* pack_block(const DepthwiseWeights& w, int channel, int width, int shift, uint8_t* to) {
  auto* correction = reinterpret_cast<int32_t*>(to);
  auto* multiplier = reinterpret_cast<float*>(correction + width);
  float* bias = multiplier + width;
  auto* weight = reinterpret_cast<int8_t*>(bias + width);
  const int groups = groups_of(w.kernel_h, w.kernel_w);
  for (int i = 0; i < width; ++i) {
    const int vector = i / (width / 4), lane = i % (width / 4);
    const int c = channel + 16 * (lane / 4) + 4 * vector + lane % 4;
    const bool exists = c < w.channels;
    const uint32_t sum = exists ? static_cast<uint32_t>(w.correction[c]) + shifted(w, c, shift) : 0;
    correction[i] = static_cast<int32_t>(sum);
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

void pack(const DepthwiseWeights& w, int most, uint8_t* packed, int shift = 0) {
  for (int c = 0, width; c < w.channels; c += width) {
    width = width_of(w.channels - c, most);
    packed = pack_block(w, c, width, shift, packed);
  }
}

// One block of channels of one row of outputs.
struct Block {
  const DepthwiseRow& d;
  const uint8_t* packed;
  int channel;
  int channels;  // at most the width
};

// What most layers end in has loops of its own.
enum class End { bytes, bytes_and_residual, any };

// kPlanes: 2 of codes of 16 bits, high bytes before low ones.
template <class V, bool kTail, End kEnd, int kPlanes>
class Worker {
 public:
  explicit Worker(const Block& b)
      : d_(b.d),
        x_(b.d.x + b.channel),
        y_(b.d.y + b.channel * (b.d.epilogue.floats ? 4 : 1)),
        residual_(b.d.residual == nullptr ? nullptr : b.d.residual + b.channel),
        correction_(reinterpret_cast<const int32_t*>(b.packed)),
        multiplier_(reinterpret_cast<const float*>(correction_ + kBytes)),
        bias_(multiplier_ + kBytes),
        weight_(reinterpret_cast<const uint8_t*>(bias_ + kBytes)),
        mask_(V::mask(b.channels)),
        bytes_(static_cast<size_t>(b.channels) * 4),
        zero_(V::set_words(d_.epilogue.zero_point)),
        low_(V::set_bytes(d_.epilogue.low)),
        high_(V::set_bytes(d_.epilogue.high)),
        gain_(V::set(d_.epilogue.residual_multiplier)) {}

  // Columns of three taps stay in registers for all outputs that read them.
  template <int kStride>
  INTACT_INLINE void three_by_three() {
    Int columns[3][kPlanes][4];
    const uint8_t* x = x_;
    for (int i = 0; i < 3 - kStride; ++i, x += d_.x_column) column(x, columns[i]);
    const auto output = [&]<int kFirst>() __attribute__((always_inline)) {
#pragma GCC unroll 2
      for (int i = 3 - kStride; i < 3; ++i, x += d_.x_column) column(x, columns[(kFirst + i) % 3]);
      Int acc[4];
#pragma GCC unroll 2
      for (int plane = 0; plane < kPlanes; ++plane) {
        start(acc, plane);
#pragma GCC unroll 3
        for (int i = 0; i < 3; ++i) multiply(acc, columns[(kFirst + i) % 3][plane], i);
      }
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
      const uint8_t* x = x_;
      for (int plane = 0; plane < kPlanes; ++plane, x += d_.apart) {
        start(acc, plane);
        for (int g = 0; g < groups; ++g) {
          const ptrdiff_t* o = offsets + 4 * g;
          vec::spread<V>(load(x + o[0]), load(x + o[1]), load(x + o[2]), load(x + o[3]), taps);
          multiply(acc, taps, g);
        }
      }
      finish(acc);
    }
  }

 private:
  using Bytes = typename V::Bytes;
  using Int = typename V::Ints;
  using Float = typename V::Floats;
  static constexpr int kBytes = V::kBytes, kLanes = V::kWidth;

  INTACT_INLINE Bytes load(const uint8_t* p) const {
    return kTail ? V::load_tail(p, mask_) : V::load_bytes(p);
  }

  INTACT_INLINE void column(const uint8_t* x, Int (&taps)[kPlanes][4]) const {
#pragma GCC unroll 2
    for (int plane = 0; plane < kPlanes; ++plane, x += d_.apart) {
      vec::spread<V>(load(x), load(x + d_.x_row), load(x + 2 * d_.x_row), V::set_bytes(0), taps[plane]);
    }
  }

  // The correction is part of the last plane's sums.
  INTACT_INLINE void start(Int (&acc)[4], int plane) const {
#pragma GCC unroll 4
    for (int k = 0; k < 4; ++k) {
      const Int correction = V::load_int(correction_ + k * kLanes);
      if (kPlanes == 1) {
        acc[k] = correction;
      } else {
        acc[k] = plane == 0 ? V::set_int(0) : V::add_int(V::template shift_left<8>(acc[k]), correction);
      }
    }
  }

  INTACT_INLINE void multiply(Int (&acc)[4], const Int (&taps)[4], int group) const {
#pragma GCC unroll 4
    for (int k = 0; k < 4; ++k) {
      acc[k] = V::dot(acc[k], taps[k], V::load_bytes(weight_ + (group * 4 + k) * kBytes));
    }
  }

  INTACT_INLINE void finish(const Int (&acc)[4]) {
    Float v[4];
#pragma GCC unroll 4
    for (int k = 0; k < 4; ++k) {
      v[k] = V::to_float(acc[k]) * V::load(multiplier_ + k * kLanes) + V::load(bias_ + k * kLanes);
    }
    if (kEnd == End::bytes_and_residual || (kEnd == End::any && residual_ != nullptr)) add_residual(v);
    if (kEnd == End::any && d_.epilogue.floats) {
      store_floats(v);
    } else {
      if (kEnd == End::any) bound(v);
      const auto ab = V::add_words_saturated(V::pack_words(V::to_int(v[0]), V::to_int(v[1])), zero_);
      const auto cd = V::add_words_saturated(V::pack_words(V::to_int(v[2]), V::to_int(v[3])), zero_);
      const Bytes bytes = V::smaller_bytes(V::larger_bytes(V::pack_bytes(ab, cd), low_), high_);
      kTail ? V::store_tail(y_, bytes, mask_) : V::store_bytes(y_, bytes);
    }
    y_ += d_.y_pixel;
  }

  // What is too small for an integer becomes the smallest one, which is right; too large would too.
  INTACT_INLINE void bound(Float (&v)[4]) const {
#pragma GCC unroll 4
    for (int k = 0; k < 4; ++k) v[k] = V::smaller(v[k], V::set(1 << 16));
  }

  INTACT_INLINE void add_residual(Float (&v)[4]) {
    Int r[4];
    vec::spread<V>(load(residual_), V::set_bytes(0), V::set_bytes(0), V::set_bytes(0), r);
    residual_ += d_.residual_pixel;
#pragma GCC unroll 4
    for (int k = 0; k < 4; ++k) {
      v[k] = v[k] + V::to_float(V::sub_int(r[k], V::set_int(d_.epilogue.residual_zero_point))) * gain_;
    }
  }

  void store_floats(const Float (&v)[4]) const {
    alignas(64) float lanes[4][kLanes], ordered[kBytes];
    uint8_t* const to = kTail ? reinterpret_cast<uint8_t*>(ordered) : y_;
    for (int k = 0; k < 4; ++k) {
      const Float low = V::set(d_.epilogue.real_low), high = V::set(d_.epilogue.real_high);
      V::store(lanes[k], V::smaller(V::larger(v[k], low), high));
      for (int i = 0; i < kLanes; i += 4) std::memcpy(to + 16 * i + 16 * k, lanes[k] + i, 16);
    }
    if (kTail) std::memcpy(y_, ordered, bytes_);
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
  typename V::Words zero_;
  Bytes low_, high_;
  Float gain_;
};

template <class V, bool kTail, End kEnd, int kPlanes = 1>
void work(const Block& b, const ptrdiff_t* offsets, int groups) {
  const DepthwiseRow& d = b.d;
  Worker<V, kTail, kEnd, kPlanes> worker(b);
  const bool three = d.kernel_h == 3 && d.kernel_w == 3;
  if (three && d.x_pixel == d.x_column) return worker.template three_by_three<1>();
  if (three && d.x_pixel == 2 * d.x_column) return worker.template three_by_three<2>();
  worker.any(offsets, groups);
}

template <class V, bool kTail>
void work(const Block& b, const ptrdiff_t* offsets, int groups) {
  if (b.d.joins) return work<V, kTail, End::any, 2>(b, offsets, groups);
  if (b.d.epilogue.floats || !b.d.epilogue.bounded) return work<V, kTail, End::any>(b, offsets, groups);
  if (b.d.residual != nullptr) return work<V, kTail, End::bytes_and_residual>(b, offsets, groups);
  work<V, kTail, End::bytes>(b, offsets, groups);
}

template <class V>
void work(const Block& b, const ptrdiff_t* offsets, int groups) {
  b.channels == static_cast<int>(V::kBytes) ? work<V, false>(b, offsets, groups)
                                            : work<V, true>(b, offsets, groups);
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
