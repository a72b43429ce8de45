// Products of 16 bits, added up by neighbours.
#include "base/cpu.h"

#if INTACT_ARCH_NEON
#include "kernels/depthwise/neon.h"

namespace intact {
namespace {

struct Dot {
  static INTACT_INLINE int32x4_t add(int32x4_t sums, int8x16_t a, int8x16_t b) {
    const int32x4_t low = vpaddlq_s16(vmull_s8(vget_low_s8(a), vget_low_s8(b)));
    return vaddq_s32(sums, vpaddq_s32(low, vpaddlq_s16(vmull_high_s8(a, b))));
  }
};

}  // namespace

const DepthwiseOps depthwise_neon = neon_ops_of<Dot>();

}  // namespace intact
#endif
