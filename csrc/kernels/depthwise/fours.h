// Kernels that multiply four taps of one channel at a time, for any register width. V is a set of the vector
// layer (base/vector/vector.h) with
//
//   Mask, mask(bytes)              of so many bytes: store_tail(p, v, mask), and load_tail(p, mask); a set
//                                  without load_tail reads whole registers (`slack`), and its store_tail
//                                  takes whole blocks, too
//   dot(acc, x, w)                 + the sums of fours of unsigned x by signed w; a kernel that takes
//                                  something from x first has pack() put it into the corrections
//   dot(acc, x, size, turn)        instead, of a set whose weights lie in magnitudes (Form): x is xored with
//                                  `turn` first
//   Ends                           the set of epilogues: this one, or one that several sets share
//   kMasks                         whether store_tail is one instruction, for whole blocks, too
//   kRegisters                     16 or 32
//   differ(a, b)                   optional: whether any bytes do; a set that has it makes codes of functions
//                                  by their bounds (gemm/cells.h), where the function has an end
//   cell(table, i)                 and, with this, where not: of 32 floats the one that the low bits of i say
//
// Unpacking within 128-bit lanes interleaves the taps. The lanes of a block keep that order: lane i of
// vector k is channel 16 * (i / 4) + 4 * k + i % 4. Packing restores the order.
#pragma once

#include <cstring>
#include <utility>

#include "base/vector/vector.h"
#include "kernels/depthwise/depthwise.h"
#include "kernels/depthwise/fours_finish.h"

namespace intact {
namespace {
namespace fours {

// Groups of four taps. In kernels of three or five rows each column of the first four rows is a group, so
// that neighbouring outputs share it. All other taps are grouped in order.
int columns_of(int kernel_h, int kernel_w) { return kernel_h == 3 || kernel_h == 5 ? kernel_w : 0; }

// The number of rows of a column in its group.
int rows_of(int kernel_h) { return kernel_h < 4 ? kernel_h : 4; }

int groups_of(int kernel_h, int kernel_w) {
  const int columns = columns_of(kernel_h, kernel_w);
  return columns + (kernel_h * kernel_w - columns * rows_of(kernel_h) + 3) / 4;
}

// The tap at a place of a group: row * kernel_w + column, or -1.
int tap_at(int kernel_h, int kernel_w, int group, int place) {
  const int columns = columns_of(kernel_h, kernel_w), rows = rows_of(kernel_h);
  if (group < columns) return place < rows ? place * kernel_w + group : -1;
  const int tap = columns * rows + 4 * (group - columns) + place;
  return tap < kernel_h * kernel_w ? tap : -1;
}

// Of each channel: its correction, M, B, G and H.
constexpr int kConstants = 5;

size_t bytes_of_block(int width, int groups) {
  return static_cast<size_t>(width) * 4 * (kConstants + groups);
}

// The number of lanes for the remaining channels, at most `most`. Registers of 16 bytes would save no
// instruction.
int width_of(int channels, int most) { return most == 64 && channels <= 32 ? 32 : most; }

// The form of weights for a kernel. With `magnitudes`, |w| multiplies x - 128 or, where w is negative, its
// complement 127 - x. Each vector of magnitudes is followed by a vector of masks, with which x is xored.
struct Form {
  int shift = 0;  // subtracted from each byte before the product
  bool magnitudes = false;
  int vectors() const { return magnitudes ? 2 : 1; }
};

size_t packed_bytes(const DepthwiseWeights& w, int most, const Form& form = {}) {
  size_t n = 0;
  for (int c = 0, width; c < w.channels; c += width) {
    width = width_of(w.channels - c, most);
    n += bytes_of_block(width, form.vectors() * groups_of(w.kernel_h, w.kernel_w));
  }
  return n;
}

// The part of a channel's sum that this subtraction removes.
uint32_t shifted(const DepthwiseWeights& w, int channel, const Form& form) {
  int32_t sum = 0;
  for (int tap = 0; tap < w.kernel_h * w.kernel_w; ++tap) {
    const int32_t weight = w.weight[tap * w.channels + channel];
    sum += weight * form.shift - (form.magnitudes && weight < 0 ? weight : 0);
  }
  return static_cast<uint32_t>(sum) * (w.joins ? 257u : 1u);
}

uint8_t* pack_block(const DepthwiseWeights& w, int channel, int width, const Form& form, uint8_t* to) {
  auto* correction = reinterpret_cast<int32_t*>(to);
  auto* multiplier = reinterpret_cast<float*>(correction + width);
  float *bias = multiplier + width, *gains = bias + width, *shifts = gains + width;
  auto* const weights = reinterpret_cast<uint8_t*>(shifts + width);
  const int groups = groups_of(w.kernel_h, w.kernel_w);
  for (int i = 0; i < width; ++i) {
    const int vector = i / (width / 4), lane = i % (width / 4);
    const int c = channel + 16 * (lane / 4) + 4 * vector + lane % 4;
    const bool exists = c < w.channels;
    const uint32_t sum = exists ? static_cast<uint32_t>(w.correction[c]) + shifted(w, c, form) : 0;
    correction[i] = static_cast<int32_t>(sum);
    multiplier[i] = exists ? w.multiplier[c] : 0;
    bias[i] = exists ? w.bias[c] : 0;
    gains[i] = exists && w.gains != nullptr ? w.gains[c] : 0;
    shifts[i] = exists && w.gains != nullptr ? w.shifts[c] : 0;
    for (int g = 0; g < groups; ++g) {
      for (int place = 0; place < 4; ++place) {
        const int tap = tap_at(w.kernel_h, w.kernel_w, g, place);
        const int weight = exists && tap >= 0 ? w.weight[tap * w.channels + c] : 0;
        uint8_t* const at = weights + (4 * g + vector) * form.vectors() * width + 4 * lane + place;
        *at = static_cast<uint8_t>(form.magnitudes && weight < 0 ? -weight : weight);
        if (form.magnitudes) at[width] = weight < 0 ? 0x7f : 0x80;
      }
    }
  }
  return to + bytes_of_block(width, form.vectors() * groups);
}

void pack(const DepthwiseWeights& w, int most, uint8_t* packed, const Form& form = {}) {
  for (int c = 0, width; c < w.channels; c += width) {
    width = width_of(w.channels - c, most);
    packed = pack_block(w, c, width, form, packed);
  }
}

template <class V>
constexpr bool kMagnitudes = requires(typename V::Ints x, typename V::Bytes w) { V::dot(x, x, w, w); };

// The outputs of one block. kTail: the block may have fewer channels than lanes. kPlanes: 2 of codes of 16
// bits, high bytes before low ones. Out takes the sums of each pixel: Finish or Later.
template <class V, bool kTail, int kPlanes, class Out>
class Worker {
 public:
  explicit Worker(const Block& b)
      : d_(b.d),
        out_(b),
        x_(b.d.x + b.channel),
        correction_(reinterpret_cast<const int32_t*>(b.packed)),
        weight_(b.packed + kConstants * sizeof(int32_t) * kBytes),
        mask_(V::mask(b.channels)) {}

  // Columns of kSide taps, or of their first four, stay in registers for all outputs that read them.
  template <int kSide, int kStride>
  INTACT_INLINE void square(const ptrdiff_t* offsets) {
    Int columns[kSide][kPlanes][4];
    const uint8_t* x = x_;
#pragma GCC unroll 4
    for (int i = 0; i < kSide - kStride; ++i, x += d_.x_column) column<kSide>(x, columns[i]);
    const auto output = [&]<int kFirst>() __attribute__((always_inline)) {
#pragma GCC unroll 2
      for (int i = kSide - kStride; i < kSide; ++i, x += d_.x_column) {
        column<kSide>(x, columns[(kFirst + i) % kSide]);
      }
      Int acc[4];
      const uint8_t* plane_x = x_;
#pragma GCC unroll 2
      for (int plane = 0; plane < kPlanes; ++plane, plane_x += d_.apart) {
        start(acc, plane);
#pragma GCC unroll 5
        for (int i = 0; i < kSide; ++i) multiply(acc, columns[(kFirst + i) % kSide][plane], i);
        if constexpr (kSide == 5) {
#pragma GCC unroll 2
          for (int g = kSide; g < kSide + 2; ++g) group(acc, plane_x, offsets, g);
        }
      }
      x_ += d_.x_pixel;
      out_.take(acc);
    };
    for (size_t p = 0; p < d_.pixels;) {
      out_.make_room(kSide);
      turn<kStride>(output, p, std::make_integer_sequence<int, kSide>{});
    }
    out_.end();
  }

  void any(const ptrdiff_t* offsets, int groups) {
    for (size_t p = 0; p < d_.pixels; ++p, x_ += d_.x_pixel) {
      Int acc[4];
      const uint8_t* x = x_;
      for (int plane = 0; plane < kPlanes; ++plane, x += d_.apart) {
        start(acc, plane);
        for (int g = 0; g < groups; ++g) group(acc, x, offsets, g);
      }
      out_.make_room(1);
      out_.take(acc);
    }
    out_.end();
  }

 private:
  using Bytes = typename V::Bytes;
  using Int = typename V::Ints;
  static constexpr int kBytes = V::kBytes, kLanes = V::kWidth;

  INTACT_INLINE Bytes load(const uint8_t* p) const {
    if constexpr (kReadsWhole<V> || !kTail) {
      return V::load_bytes(p);
    } else {
      return V::load_tail(p, mask_);
    }
  }

  // Outputs that begin at successive columns, as long as there are any.
  template <int kStride, class Output, int... i>
  INTACT_INLINE void turn(const Output& output, size_t& p, std::integer_sequence<int, i...>) const {
    constexpr int kSide = sizeof...(i);
    static_cast<void>(((output.template operator()<i * kStride % kSide>(), ++p < d_.pixels) && ...));
  }

  template <int kSide>
  INTACT_INLINE void column(const uint8_t* x, Int (&taps)[kPlanes][4]) const {
#pragma GCC unroll 2
    for (int plane = 0; plane < kPlanes; ++plane, x += d_.apart) {
      const Bytes fourth = kSide == 3 ? V::set_bytes(0) : load(x + 3 * d_.x_row);
      vec::spread<V>(load(x), load(x + d_.x_row), load(x + 2 * d_.x_row), fourth, taps[plane]);
    }
  }

  INTACT_INLINE void group(Int (&acc)[4], const uint8_t* x, const ptrdiff_t* offsets, int g) const {
    const ptrdiff_t* const o = offsets + 4 * g;
    Int taps[4];
    vec::spread<V>(load(x + o[0]), load(x + o[1]), load(x + o[2]), load(x + o[3]), taps);
    multiply(acc, taps, g);
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
      if constexpr (kMagnitudes<V>) {
        const uint8_t* const w = weight_ + (group * 4 + k) * 2 * kBytes;
        acc[k] = V::dot(acc[k], taps[k], V::load_bytes(w), V::load_bytes(w + kBytes));
      } else {
        acc[k] = V::dot(acc[k], taps[k], V::load_bytes(weight_ + (group * 4 + k) * kBytes));
      }
    }
  }

  const DepthwiseRow& d_;
  Out out_;
  const uint8_t* x_;
  const int32_t* correction_;
  const uint8_t* weight_;
  typename V::Mask mask_;
};

// A loop stands alone: with others in one function, constants of its epilogue are spilled (25% of rows of
// 7 pixels).
template <class Worker, int kSide, int kStride>
INTACT_APART void square(const Block& b, const ptrdiff_t* offsets) {
  Worker(b).template square<kSide, kStride>(offsets);
}

template <class Worker>
INTACT_APART void any(const Block& b, const ptrdiff_t* offsets, int groups) {
  Worker(b).any(offsets, groups);
}

// Loops that end in registers what they sum: 5 to 30% faster than Later, for common epilogues, windows and
// strides. Returns whether this block is one of them.
template <class V, bool kTail>
bool loops_with_end(const Block& b, const ptrdiff_t* offsets, int groups, int side, int stride) {
  bool common = true;
  const bool ends = with_end<typename V::Ends>(b, [&]<End kEnd>() {
    using Holds = Worker<V, kTail, 1, Finish<typename V::Ends, V::kMasks, kEnd, (V::kRegisters > 16)>>;
    using Reads = Worker<V, kTail, 1, Finish<typename V::Ends, V::kMasks, kEnd, false>>;
    if (side == 0) return any<Holds>(b, offsets, groups);
    if (side == 3) return stride == 1 ? square<Holds, 3, 1>(b, offsets) : square<Holds, 3, 2>(b, offsets);
    // Few networks have floats there, where codes of functions have bounds.
    constexpr bool kFew = kEnd == End::residual || (kEnd == End::floats && kHasCells<typename V::Ends>);
    if constexpr (!kFew) {
      if (stride == 1) return square<Reads, 5, 1>(b, offsets);
    }
    common = false;
  });
  return ends && common;
}

template <class V, bool kTail, int kPlanes>
void loops(const Block& b, const ptrdiff_t* offsets, int groups) {
  const DepthwiseRow& d = b.d;
  const int stride = d.x_pixel == d.x_column ? 1 : d.x_pixel == 2 * d.x_column ? 2 : 0;
  // Of two planes, the columns of five taps would not fit the registers.
  const bool has_side =
      d.kernel_h == d.kernel_w && stride > 0 && (d.kernel_h == 3 || (d.kernel_h == 5 && kPlanes == 1));
  const int side = has_side ? d.kernel_h : 0;
  if constexpr (kPlanes == 1 && (V::kMasks || !kTail || kReadsWhole<V>)) {
    const bool whole = V::kMasks || b.channels == static_cast<int>(V::kBytes);
    if (whole && loops_with_end<V, kTail>(b, offsets, groups, side, stride)) return;
  }
  using Any = Worker<V, kTail, kPlanes, Later<typename V::Ends>>;
  if (side == 3) return stride == 1 ? square<Any, 3, 1>(b, offsets) : square<Any, 3, 2>(b, offsets);
  if constexpr (kPlanes == 1) {
    if (side == 5) return stride == 1 ? square<Any, 5, 1>(b, offsets) : square<Any, 5, 2>(b, offsets);
  }
  any<Any>(b, offsets, groups);
}

template <class V, int kPlanes>
void work(const Block& b, const ptrdiff_t* offsets, int groups) {
  if constexpr (!kReadsWhole<V>) {
    if (b.channels == static_cast<int>(V::kBytes)) return loops<V, false, kPlanes>(b, offsets, groups);
  }
  loops<V, true, kPlanes>(b, offsets, groups);
}

template <class V>
void work(const Block& b, const ptrdiff_t* offsets, int groups) {
  b.d.joins ? work<V, 2>(b, offsets, groups) : work<V, 1>(b, offsets, groups);
}

// `work(block, width, offsets, groups)` for every block of the row.
template <int kMost, class Work>
void each_block(const DepthwiseRow& d, const Work& work, const Form& form = {}) {
  const int groups = groups_of(d.kernel_h, d.kernel_w), vectors = form.vectors() * groups;
  ptrdiff_t offsets[4 * kMostTaps];
  for (int i = 0; i < 4 * groups; ++i) {
    const int tap = tap_at(d.kernel_h, d.kernel_w, i / 4, i % 4);
    offsets[i] = tap < 0 ? 0 : tap / d.kernel_w * d.x_row + tap % d.kernel_w * d.x_column;
  }
  const bool whole = d.end * kMost < static_cast<size_t>(d.channels);
  const int end = whole ? static_cast<int>(d.end) * kMost : d.channels;
  const uint8_t* packed = d.packed + d.begin * bytes_of_block(kMost, vectors);
  for (int c = static_cast<int>(d.begin) * kMost, width = 0; c < end; c += width) {
    width = width_of(d.channels - c, kMost);
    const Block block = {d, packed, c, d.channels - c < width ? d.channels - c : width};
    work(block, width, offsets, groups);
    packed += bytes_of_block(width, vectors);
  }
}

}  // namespace fours
}  // namespace
}  // namespace intact
