// sdot: four products and their sum in one instruction.
#include "base/cpu.h"

#if defined(INTACT_NEON_DOT)
#include "kernels/depthwise/neon.h"

namespace intact {
namespace {

struct Dot {
  static INTACT_INLINE int32x4_t add(int32x4_t sums, int8x16_t a, int8x16_t b) {
    return vdotq_s32(sums, a, b);
  }
};

}  // namespace

const DepthwiseOps depthwise_neondot = neon_ops_of<Dot>();

}  // namespace intact
#endif
