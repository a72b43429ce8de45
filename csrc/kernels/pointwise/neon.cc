// A table of 256 bytes is four lookups in 64 of them, where an index beyond gives 0.
#include "kernels/pointwise/generic.h"

#if INTACT_ARCH_NEON
#include "base/vector/neon.h"

namespace intact {
namespace {

void lookup(const uint8_t* x, const uint8_t* table, size_t n, uint8_t* y) {
  uint8x16x4_t entries[4];
  for (int k = 0; k < 4; ++k) entries[k] = vld1q_u8_x4(table + 64 * k);
  pointwise_loops::for_each_bytes<Neon>(n, y, [&](size_t i, const auto& load) INTACT_INLINE_BODY {
    const uint8x16_t at = load(x + i);
    uint8x16_t found = vqtbl4q_u8(entries[0], at);
    for (int k = 1; k < 4; ++k) {
      found = vorrq_u8(found, vqtbl4q_u8(entries[k], vsubq_u8(at, vdupq_n_u8(static_cast<uint8_t>(64 * k)))));
    }
    return found;
  });
}

}  // namespace

const PointwiseOps pointwise_neon = pointwise_loops::ops_of<Neon>(lookup);

}  // namespace intact
#endif
