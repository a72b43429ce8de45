// 8 words or 4 sums at a time; smlal by lane: four products and their sums. The products of bytes that it
// stands beside are four times as many in an instruction, so that it is never the faster way: it is here for
// those who ask for it.
#include "kernels/winograd/generic.h"

#if defined(INTACT_NEON_DOT)
#include "base/vector/neon.h"

namespace intact {
namespace {

struct Set : winograd::Vectors<Neon> {
  using Pairs = int16x4x2_t;  // the first of each pair, the second of each
  static INTACT_INLINE Pairs pairs(const int16_t* p) { return vld2_s16(p); }
  static INTACT_INLINE int16x4_t pair(const int16_t* p) {
    int32_t two;
    std::memcpy(&two, p, 4);
    return vreinterpret_s16_s32(vdup_n_s32(two));
  }
  static INTACT_INLINE Sums dot(Sums s, int16x4_t a, Pairs b) {
    return {vmlal_lane_s16(vmlal_lane_s16(s.v, b.val[0], a, 0), b.val[1], a, 1)};
  }
};

void multiply(const WinogradProduct& p) {
  switch (p.width / Set::kSums) {
    case 1: return winograd::multiply_rows<Set, 1, 8>(p);
    case 2: return winograd::multiply_rows<Set, 2, 8>(p);
    case 3: return winograd::multiply_rows<Set, 3, 6>(p);
    default: return winograd::multiply_rows<Set, 4, 4>(p);
  }
}

}  // namespace

const WinogradOps winograd_neondot = winograd::ops_of<Set>(&gemm_neondot, 4, {4, 670, 800}, multiply);

}  // namespace intact
#endif
