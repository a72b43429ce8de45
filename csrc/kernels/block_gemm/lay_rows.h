// Codes of rows as products read them, and their sums, by registers of 16 bytes. A lane has four neighbours
// of a row.
#pragma once

#include <cstring>

#include "base/vector/vector.h"
#include "kernels/block_gemm/block_gemm.h"

namespace intact::block_gemm {

using vec::I;

// Sums of the four bytes of each lane. A lane holds two sums of 16 bits until those may be full.
template <class N>
class ByteSums {
 public:
  template <size_t kCount>
  INTACT_INLINE void add(const I<N> (&bytes)[kCount]) {
    const I<N> low = N::set_int(0x00ff00ff);
    for (const I<N> b : bytes) {
      words_ = N::add_int(words_, N::and_int(b, low));
      words_ = N::add_int(words_, N::and_int(N::template shift_right<8>(b), low));
    }
    count_ += kCount;
    if (count_ > 128 - kCount) empty();
  }

  INTACT_INLINE I<N> total() {
    empty();
    return sums_;
  }

 private:
  INTACT_INLINE void empty() {
    const I<N> low = N::and_int(words_, N::set_int(0xffff));
    sums_ = N::add_int(sums_, N::add_int(low, N::template shift_right<16>(words_)));
    words_ = N::set_int(0);
    count_ = 0;
  }

  I<N> words_ = N::set_int(0), sums_ = N::set_int(0);
  size_t count_ = 0;
};

// kRows rows by turns: four, or one by itself.
template <class N, size_t kRows>
class RowLayer {
 public:
  INTACT_INLINE RowLayer(const BlockLay& l, size_t row) : is_unsigned_(l.is_unsigned) {
    std::memset(nothing_, l.is_unsigned ? 128 : 0, sizeof nothing_);
    for (size_t r = 0; r < kRows; ++r) {
      const uint8_t* const x = l.x[row + r];
      x_[r] = x != nullptr ? x : nothing_;
      step_[r] = x != nullptr ? 1 : 0;
    }
  }

  // Lays the elements [from, end) and zeros up to a multiple of 8; sums are those of rows.
  INTACT_INLINE void lay(size_t from, size_t end, uint8_t* to, int32_t (&sums)[kRows]) const {
    // What is summed has no sign, what is laid has one.
    const I<N> top = N::set_int(static_cast<int32_t>(0x80808080u)), none = N::set_int(0);
    const I<N> before = is_unsigned_ ? none : top;
    ByteSums<N> bytes;
    size_t i = from;
    for (; i + kElements <= end; i += kElements, to += kElements * kRows) {
      I<N> codes[kRows];
      load(i, codes);
      for (I<N>& c : codes) c = N::xor_int(c, before);
      bytes.add(codes);
      for (size_t r = 0; r < kRows; ++r) N::store_int(to + 16 * r, N::xor_int(codes[r], top));
    }
    int32_t lanes[4];
    N::store_int(lanes, bytes.total());
    for (size_t r = 0; r < kRows; ++r) sums[r] = -128 * static_cast<int32_t>(i - from);
    for (size_t lane = 0; lane < 4; ++lane) sums[lane % kRows] += lanes[lane];
    for (; i < end; i += kBlockUnit) {
      for (size_t half = i; half < i + kBlockUnit; half += 4) {
        for (size_t r = 0; r < kRows; ++r, to += 4) sums[r] += lay_four(r, half, end, to);
      }
    }
  }

 private:
  static constexpr size_t kElements = 16;  // of a row, in one register
  static_assert(kRows == 1 || kRows == 4);

  INTACT_INLINE void load(size_t i, I<N> (&codes)[kRows]) const {
    if constexpr (kRows == 1) {
      codes[0] = N::load_int(x_[0] + i * step_[0]);
    } else {
      const auto a = N::load_bytes(x_[0] + i * step_[0]), b = N::load_bytes(x_[1] + i * step_[1]);
      const auto c = N::load_bytes(x_[2] + i * step_[2]), d = N::load_bytes(x_[3] + i * step_[3]);
      const auto ab_low = N::low32(a, b), ab_high = N::high32(a, b);
      const auto cd_low = N::low32(c, d), cd_high = N::high32(c, d);
      codes[0] = N::ints_of(N::low64(ab_low, cd_low));
      codes[1] = N::ints_of(N::high64(ab_low, cd_low));
      codes[2] = N::ints_of(N::low64(ab_high, cd_high));
      codes[3] = N::ints_of(N::high64(ab_high, cd_high));
    }
  }

  INTACT_INLINE int32_t lay_four(size_t r, size_t i, size_t end, uint8_t* to) const {
    int32_t sum = 0;
    for (size_t at = 0; at < 4; ++at) {
      const bool is_there = i + at < end && step_[r] != 0;
      const int code = is_there ? x_[r][i + at] ^ (is_unsigned_ ? 128 : 0) : 0;
      to[at] = static_cast<uint8_t>(code);
      sum += static_cast<int8_t>(code);
    }
    return sum;
  }

  bool is_unsigned_;
  const uint8_t* x_[kRows];
  size_t step_[kRows];  // 0: there is no such row
  uint8_t nothing_[kElements];
};

// Groups of kGroup rows, of which kRows lie by turns.
template <class N, size_t kGroup, size_t kRows>
void lay_rows(const BlockLay& l) {
  for (size_t row = 0; row < kGroup; row += kRows) {
    const RowLayer<N, kRows> layer(l, row);
    auto* const to = reinterpret_cast<uint8_t*>(l.codes) + row * l.units * kBlockUnit;
    for (size_t p = 0; p < l.pieces; ++p) {
      const size_t from = p * l.piece * kBlockUnit, end = from + l.piece * kBlockUnit;
      int32_t sums[kRows];
      layer.lay(from, end < l.k ? end : l.k, to + from * kRows, sums);
      for (size_t r = 0; r < kRows; ++r) l.negatives[p * kGroup + row + r] = -sums[r];
    }
  }
}

}  // namespace intact::block_gemm
