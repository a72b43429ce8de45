// 16 channels a block. Products are those of signed bytes: 128 is taken from each byte of x, which
// corrections make good. Dot::add is a sum of fours of products. Included by the files of Arm's instruction
// sets.
#pragma once

#include "base/vector/neon.h"
#include "kernels/depthwise/fours.h"

namespace intact {
namespace {

template <class Dot>
struct Sixteen : Neon {
  using Mask = size_t;
  using Ends = Sixteen;
  static constexpr bool kMasks = false;
  static constexpr int kRegisters = 32;
  static constexpr int kShift = 128;
  static Mask mask(int bytes) { return static_cast<size_t>(bytes); }
  static INTACT_INLINE Bytes load_tail(const uint8_t* p, Mask n) { return load_bytes_part(p, n); }
  static INTACT_INLINE void store_tail(uint8_t* p, Bytes v, Mask n) { store_bytes_part(p, v, n); }
  static INTACT_INLINE Ints dot(Ints acc, Ints x, Bytes w) {
    const uint8x16_t centred = veorq_u8(vreinterpretq_u8_s32(x), vdupq_n_u8(0x80));
    return Dot::add(acc, vreinterpretq_s8_u8(centred), vreinterpretq_s8_u8(w));
  }
};

template <class Dot>
size_t packed_bytes(const DepthwiseWeights& w) {
  return fours::packed_bytes(w, Sixteen<Dot>::kBytes);
}

template <class Dot>
void pack(const DepthwiseWeights& w, uint8_t* packed) {
  fours::pack(w, Sixteen<Dot>::kBytes, packed, {.shift = Sixteen<Dot>::kShift});
}

template <class Dot>
void run(const DepthwiseRow& d) {
  fours::each_block<Sixteen<Dot>::kBytes>(
      d, [](const fours::Block& block, int, const ptrdiff_t* offsets, int groups) {
        fours::work<Sixteen<Dot>>(block, offsets, groups);
      });
}

template <class Dot>
constexpr DepthwiseOps neon_ops_of() {
  return {Sixteen<Dot>::kBytes, 0, packed_bytes<Dot>, pack<Dot>, run<Dot>};
}

}  // namespace
}  // namespace intact
