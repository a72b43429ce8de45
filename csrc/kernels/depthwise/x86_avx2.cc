// Four taps at a time where no pair of products can leave 16 bits, because bytes of x end at 127; else two.
#include "base/cpu.h"

#if INTACT_ARCH_X86
#include <immintrin.h>

#include "kernels/depthwise/fours.h"
#include "kernels/depthwise/pairs_avx2.h"

namespace intact {
namespace {

// 127 * 128 * 2 fits 16 bits, and vpmaddubsw saturates nothing.
constexpr int kMostByte = 127;

#define INTACT_WIDTH(Name, kBytes, Integers, Floats, P, S)                                          \
  struct Name {                                                                                     \
    INTACT_LANES(kBytes, Integers, Floats, P)                                                       \
    using Mask = size_t;                                                                            \
    static Mask mask(int bytes) { return static_cast<size_t>(bytes); }                              \
    static INTACT_INLINE Int load(const void* p) {                                                  \
      return P##_loadu_##S(reinterpret_cast<const Integers*>(p));                                   \
    }                                                                                               \
    static INTACT_INLINE void store(void* p, Int v) {                                               \
      P##_storeu_##S(reinterpret_cast<Integers*>(p), v);                                            \
    }                                                                                               \
    static Int load(const void* p, Mask n) {                                                        \
      alignas(32) uint8_t copy[kBytes] = {0};                                                       \
      std::memcpy(copy, p, n);                                                                      \
      return load(copy);                                                                            \
    }                                                                                               \
    static void store(void* p, Mask n, Int v) {                                                     \
      alignas(32) uint8_t copy[kBytes];                                                             \
      store(copy, v);                                                                               \
      std::memcpy(p, copy, n);                                                                      \
    }                                                                                               \
    static INTACT_INLINE Int dot(Int acc, Int x, Int w) {                                           \
      const Int twos = P##_madd_epi16(P##_maddubs_epi16(x, w), P##_set1_epi16(1));                  \
      return P##_add_epi32(acc, twos);                                                              \
    }                                                                                               \
  };
INTACT_WIDTH(Wide, 32, __m256i, __m256, _mm256, si256)
INTACT_WIDTH(Narrow, 16, __m128i, __m128, _mm, si128)
#undef INTACT_WIDTH

size_t packed_bytes(const DepthwiseWeights& w) {
  return w.high <= kMostByte ? fours::packed_bytes(w, Wide::kWidth) : pairs::packed_bytes(w);
}

void pack(const DepthwiseWeights& w, uint8_t* packed) {
  w.high <= kMostByte ? fours::pack(w, Wide::kWidth, packed) : pairs::pack(w, packed);
}

void run(const DepthwiseRow& d) {
  if (d.high > kMostByte) {
    const size_t end = d.end * Wide::kWidth, channels = static_cast<size_t>(d.channels);
    pairs::run(d, static_cast<int>(d.begin) * Wide::kWidth, static_cast<int>(end < channels ? end : channels));
    return;
  }
  fours::each_block<Wide::kWidth>(
      d, [](const fours::Block& block, int width, const ptrdiff_t* offsets, int groups) {
        if (width == 32) fours::work<Wide>(block, offsets, groups);
        if (width == 16) fours::work<Narrow>(block, offsets, groups);
      });
}

}  // namespace

const DepthwiseOps depthwise_avx2 = {Wide::kWidth, packed_bytes, pack, run};

}  // namespace intact
#endif
