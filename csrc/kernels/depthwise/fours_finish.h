// Epilogues of sums in memory or in registers, of depthwise kernels that take four vectors of 32 bits at a
// time (fours.h). One function for each epilogue, beside the loops of products and not within: as many
// instances as both have, not their product.
#pragma once

#include <cstring>

#include "base/vector/vector.h"
#include "kernels/depthwise/depthwise.h"
#include "kernels/gemm/cells.h"

namespace intact {
namespace {
namespace fours {

// One block of channels of one row of outputs.
struct Block {
  const DepthwiseRow& d;
  const uint8_t* packed;
  int channel;
  int channels;  // at most the width
};

// The common epilogues have loops of their own. Bounds of a function are cells, or one quadratic.
enum class End { bytes, residual, cells, quadratic, floats, any };

template <class V>
constexpr bool kHasBounds = requires(typename V::Bytes bytes) { V::differ(bytes, bytes); };
template <class V>
constexpr bool kHasCells = requires(const float* table, typename V::Floats i) { V::cell(table, i); };
template <class V>
constexpr bool kReadsWhole = !requires(const uint8_t* p, typename V::Mask mask) { V::load_tail(p, mask); };
// kTail: the block may have fewer channels than lanes. kHold: registers are left for constants.
template <class V, bool kTail, End kEnd, bool kHold>
class Finish {
 public:
  // Of pixels from `first` on.
  explicit Finish(const Block& b, size_t first = 0)
      : d_(b.d),
        y_(b.d.y + static_cast<ptrdiff_t>(first) * b.d.y_pixel + b.channel * (b.d.epilogue.floats ? 4 : 1)),
        residual_(b.d.residual == nullptr
                      ? nullptr
                      : b.d.residual + static_cast<ptrdiff_t>(first) * b.d.residual_pixel + b.channel),
        multiplier_(reinterpret_cast<const float*>(b.packed) + kBytes),
        bias_(multiplier_ + kBytes),
        gains_(b.d.epilogue.has_gain ? bias_ + kBytes : nullptr),
        divides_(b.d.epilogue.divides),
        mask_(V::mask(b.channels)),
        bytes_(static_cast<size_t>(b.channels) * 4),
        zero_(V::set_words(d_.epilogue.zero_point)),
        low_(V::set_bytes(d_.epilogue.low)),
        high_(V::set_bytes(d_.epilogue.high)),
        gain_(V::set(d_.epilogue.residual_multiplier)),
        high_inverse_(V::set(d_.epilogue.divisor.high)),
        low_inverse_(V::set(d_.epilogue.divisor.low)) {
    if constexpr (kHolds) {
      for (int k = 0; k < 4; ++k) {
        scales_[k] = V::load(multiplier_ + k * kLanes);
        shifts_[k] = V::load(bias_ + k * kLanes);
        if constexpr (kBounds) {
          if (gains_ != nullptr) {  // they become part of both, which the bounds allow for
            const Float gain = V::load(gains_ + k * kLanes), shift = V::load(gains_ + kBytes + k * kLanes);
            scales_[k] = scales_[k] * gain;
            shifts_[k] = V::fma(shifts_[k], gain, shift);
          }
          scales_[k] = scales_[k] * V::set(d_.epilogue.cells->per_unit);
          shifts_[k] = shifts_[k] * V::set(d_.epilogue.cells->per_unit);
        }
      }
    }
  }

  // The sums of the next pixel.
  INTACT_INLINE void take(const typename V::Ints (&acc)[4]) { finish(acc); }
  void make_room(size_t) {}
  void end() {}

  void pixels(const int32_t* sums, size_t count) {
    for (size_t i = 0; i < count; ++i, sums += kBytes) {
      Int acc[4];
#pragma GCC unroll 4
      for (int k = 0; k < 4; ++k) acc[k] = V::load_int(sums + k * kLanes);
      finish(acc);
    }
  }

 private:
  using Bytes = typename V::Bytes;
  using Int = typename V::Ints;
  using Float = typename V::Floats;
  static constexpr int kBytes = V::kBytes, kLanes = V::kWidth;
  static constexpr bool kBounds = kEnd == End::cells || kEnd == End::quadratic;
  static constexpr bool kHolds = kBounds || kHold;

  INTACT_INLINE Bytes load(const uint8_t* p) const {
    if constexpr (kReadsWhole<V> || !kTail) {
      return V::load_bytes(p);
    } else {
      return V::load_tail(p, mask_);
    }
  }

  INTACT_INLINE void finish(const Int (&acc)[4]) {
    if constexpr (kBounds) {
      by_bounds(acc);
    } else {
      Float v[4];
      reals(acc, v);
      if (kEnd == End::residual || (kEnd == End::any && residual_ != nullptr)) add_residual(v);
      if (kEnd == End::floats || (kEnd == End::any && d_.epilogue.floats)) {
        store_floats(v);
      } else {
        if (kEnd == End::residual || (kEnd == End::bytes && divides_)) divide(v);
        if (kEnd == End::any) bound(v);
        store_bytes(bytes_of(v));
      }
    }
    y_ += d_.y_pixel;
  }

  INTACT_INLINE void reals(const Int (&acc)[4], Float (&v)[4]) const {
#pragma GCC unroll 4
    for (int k = 0; k < 4; ++k) {
      const Float m = kHolds && !kBounds ? scales_[k] : V::load(multiplier_ + k * kLanes);
      const Float b = kHolds && !kBounds ? shifts_[k] : V::load(bias_ + k * kLanes);
      v[k] = V::to_float(acc[k]) * m + b;
    }
    if constexpr (kEnd == End::any || kBounds) {
      if (gains_ == nullptr) return;
#pragma GCC unroll 4
      for (int k = 0; k < 4; ++k) {
        v[k] = v[k] * V::load(gains_ + k * kLanes) + V::load(gains_ + kBytes + k * kLanes);
      }
    }
  }

  INTACT_INLINE Bytes bytes_of(const Float (&v)[4]) const {
    const auto ab = V::add_words_saturated(V::pack_words(V::to_int(v[0]), V::to_int(v[1])), zero_);
    const auto cd = V::add_words_saturated(V::pack_words(V::to_int(v[2]), V::to_int(v[3])), zero_);
    return V::smaller_bytes(V::larger_bytes(V::pack_bytes(ab, cd), low_), high_);
  }

  INTACT_INLINE void store_bytes(Bytes bytes) const {
    kTail ? V::store_tail(y_, bytes, mask_) : V::store_bytes(y_, bytes);
  }

  INTACT_INLINE void by_bounds(const Int (&acc)[4]) const {
    Float least[4], most[4];
#pragma GCC unroll 4
    for (int k = 0; k < 4; ++k) {
      least[k] = lower_of(acc[k], k);
      most[k] = least[k] + V::set(d_.epilogue.cells->width);
    }
    const Bytes bytes = bytes_of(least);
    if (V::differ(bytes, bytes_of(most))) [[unlikely]] {
      by_function(acc);
    } else {
      store_bytes(bytes);
    }
  }

  // The lower bound of the function's codes, in steps of the output.
  INTACT_INLINE Float lower_of(Int acc, int k) const {
    const FunctionCells& c = *d_.epilogue.cells;
    const Float x = V::smaller(V::fma(V::to_float(acc), scales_[k], shifts_[k]), V::set(c.top));
    const Float size = V::smaller(V::abs(x), V::set(kEnd == End::quadratic ? c.end : kMostCell));
    Float y;
    if constexpr (kEnd == End::quadratic) {
      y = V::fma(V::fma(V::set(c.terms[2][0]), size, V::set(c.terms[1][0])), size, V::set(c.terms[0][0]));
    } else {
      const Float rounder = V::set(12582912.0f), shifted = size + rounder;
      const Float t = size - (shifted - rounder);
      y = V::cell(c.terms[kCellTerms - 1], shifted);
#pragma GCC unroll 4
      for (int power = kCellTerms - 2; power >= 0; --power) {
        y = V::fma(y, t, V::cell(c.terms[power], shifted));
      }
    }
    return V::fma(V::larger(x, V::set(0)), V::set(c.ramp), y);
  }

  // Rare: evaluates the function itself for all channels of the block.
  INTACT_APART void by_function(const Int (&acc)[4]) const {
    alignas(64) float ordered[kBytes];
    alignas(64) uint8_t bytes[kBytes];
    Float v[4];
    reals(acc, v);
    in_order(v, ordered);
    d_.epilogue.curve(ordered, bytes_ / 4, d_.epilogue.curve_codes(), bytes);
    std::memcpy(y_, bytes, bytes_ / 4);
  }

  // By the scale of the output (base/divisor.h).
  INTACT_INLINE void divide(Float (&v)[4]) const {
#pragma GCC unroll 4
    for (int k = 0; k < 4; ++k) v[k] = V::fma(v[k], high_inverse_, v[k] * low_inverse_);
  }

  // A number too small for an integer converts to the smallest one, which is right. One too large would, too.
  INTACT_INLINE void bound(Float (&v)[4]) const {
    const Float scale = V::set(d_.epilogue.divides ? d_.epilogue.scale : 1.0f);
#pragma GCC unroll 4
    for (int k = 0; k < 4; ++k) v[k] = V::smaller(v[k] / scale, V::set(1 << 16));
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

  void store_floats(Float (&v)[4]) const {
    const Float low = V::set(d_.epilogue.real_low), high = V::set(d_.epilogue.real_high);
    for (int k = 0; k < 4; ++k) v[k] = vec::at_most<V>(vec::at_least<V>(v[k], low), high);
    if (!kTail || bytes_ == kBytes * sizeof(float)) return in_order(v, y_);
    if constexpr (kHasCells<V>) {
      store_some(v);
    } else {
      store_part(v);  // floats are common where functions have no cells
    }
  }

  INTACT_APART void store_some(const Float (&v)[4]) const { store_part(v); }
  INTACT_INLINE void store_part(const Float (&v)[4]) const {
    alignas(64) float lanes[kLanes];
    for (size_t k = 0; k < 4; ++k) {
      V::store(lanes, v[k]);
      for (size_t i = 0; i < kLanes && 16 * (i + k) < bytes_; i += 4) {
        const size_t at = 16 * (i + k), left = bytes_ - at;
        left < 16 ? std::memcpy(y_ + at, lanes + i, left) : std::memcpy(y_ + at, lanes + i, 16);
      }
    }
  }

  // Floats of the block, channel by channel.
  static INTACT_INLINE void in_order(const Float (&v)[4], void* to) {
    alignas(64) float lanes[kLanes];
    for (int k = 0; k < 4; ++k) {
      V::store(lanes, v[k]);
      for (int i = 0; i < kLanes; i += 4)
        std::memcpy(static_cast<uint8_t*>(to) + 16 * (i + k), lanes + i, 16);
    }
  }

  const DepthwiseRow& d_;
  uint8_t* y_;
  const uint8_t* residual_;
  const float* multiplier_;
  const float* bias_;
  const float* gains_;  // followed by shifts; nullptr: none
  bool divides_;
  typename V::Mask mask_;
  size_t bytes_;  // of the floats of one pixel
  typename V::Words zero_;
  Bytes low_, high_;
  Float gain_, high_inverse_, low_inverse_;
  Float scales_[kHolds ? 4 : 1],
      shifts_[kHolds ? 4 : 1];  // multipliers and biases; for bounds, in their units
};

// `function.template operator()<kEnd>()` for the epilogue of a block. Returns whether it is a common one.
template <class V, class F>
INTACT_INLINE bool with_end(const Block& b, const F& function) {
  const Epilogue& e = b.d.epilogue;
  if (b.d.joins) return false;
  if constexpr (kHasBounds<V>) {
    if (e.cells != nullptr && e.cells->end > 0) {
      function.template operator()<End::quadratic>();
      return true;
    }
    if constexpr (kHasCells<V>) {
      if (e.cells != nullptr) {
        function.template operator()<End::cells>();
        return true;
      }
    }
  }
  if (e.has_gain) return false;
  if (e.floats && b.d.residual == nullptr) {
    function.template operator()<End::floats>();
    return true;
  }
  if (e.floats || !e.bounded) return false;
  if (b.d.residual != nullptr) {
    function.template operator()<End::residual>();
  } else {
    function.template operator()<End::bytes>();
  }
  return true;
}

template <class V, End kEnd>
INTACT_APART void finish_pixels(const Block& block, const int32_t* sums, size_t first, size_t count) {
  Finish<V, true, kEnd, (V::kRegisters > 16)>(block, first).pixels(sums, count);
}

// Keeps sums until there are as many as fit a part of the first cache.
template <class V>
class Later {
 public:
  explicit Later(const Block& b) : block_(b), finish_(finish_pixels<V, End::any>) {
    with_end<V>(b, [&]<End kEnd>() { finish_ = finish_pixels<V, kEnd>; });
  }

  INTACT_INLINE void take(const typename V::Ints (&acc)[4]) {
    int32_t* const to = sums_ + waiting_ * kBytes;
#pragma GCC unroll 4
    for (int k = 0; k < 4; ++k) V::store_int(to + k * V::kWidth, acc[k]);
    ++waiting_;
  }

  INTACT_INLINE void make_room(size_t pixels) {
    if (waiting_ + pixels > kMost) [[unlikely]]
      end();
  }

  INTACT_APART void end() {
    finish_(block_, sums_, finished_, waiting_);
    finished_ += waiting_;
    waiting_ = 0;
  }

 private:
  static constexpr size_t kBytes = V::kBytes, kMost = (8 << 10) / (sizeof(int32_t) * kBytes);
  const Block& block_;
  void (*finish_)(const Block& block, const int32_t* sums, size_t first, size_t count);
  size_t finished_ = 0, waiting_ = 0;
  alignas(64) int32_t sums_[kMost * kBytes];
};

}  // namespace fours
}  // namespace
}  // namespace intact
