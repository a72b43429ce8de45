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

// Less than 32 bytes; two stores that overlap make any number of them.
INTACT_INLINE void copy_some(const uint8_t* from, uint8_t* to, size_t n) {
  const auto both = [&](auto bytes) {
    std::memcpy(to, from, sizeof bytes);
    std::memcpy(to + n - sizeof bytes, from + n - sizeof bytes, sizeof bytes);
  };
  if (n >= 16) return both(__m128i{});
  if (n >= 8) return both(uint64_t{});
  if (n >= 4) return both(uint32_t{});
  for (size_t i = 0; i < n; ++i) to[i] = from[i];
}

#define INTACT_WIDTH(Name, kBytes, Integers, Floats, P, S)                                                 \
  struct Name {                                                                                            \
    INTACT_LANES(kBytes, Integers, Floats, P)                                                              \
    using Mask = size_t;                                                                                   \
    static Mask mask(int bytes) { return static_cast<unsigned>(bytes) % 32; }                              \
    static INTACT_INLINE Int load(const void* p) {                                                         \
      return P##_loadu_##S(reinterpret_cast<const Integers*>(p));                                          \
    }                                                                                                      \
    static INTACT_INLINE void store(void* p, Int v) { P##_storeu_##S(reinterpret_cast<Integers*>(p), v); } \
    static INTACT_INLINE Int load(const void* p, Mask) { return load(p); }                                 \
    static INTACT_INLINE void store(void* p, Mask n, Int v) {                                              \
      alignas(32) uint8_t all[32];                                                                         \
      store(all, v);                                                                                       \
      copy_some(all, static_cast<uint8_t*>(p), n);                                                         \
    }                                                                                                      \
    static INTACT_INLINE Int dot(Int acc, Int x, Int w) {                                                  \
      const Int twos = P##_madd_epi16(P##_maddubs_epi16(x, w), P##_set1_epi16(1));                         \
      return P##_add_epi32(acc, twos);                                                                     \
    }                                                                                                      \
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
    const int end = static_cast<int>(d.end) * Wide::kWidth;
    pairs::run(d, static_cast<int>(d.begin) * Wide::kWidth, end < d.channels ? end : d.channels);
    return;
  }
  fours::each_block<Wide::kWidth>(
      d, [](const fours::Block& block, int width, const ptrdiff_t* offsets, int groups) {
        if (width == 32) fours::work<Wide>(block, offsets, groups);
        if (width == 16) fours::work<Narrow>(block, offsets, groups);
      });
}

}  // namespace

const DepthwiseOps depthwise_avx2 = {Wide::kWidth, Wide::kWidth, packed_bytes, pack, run};

}  // namespace intact
#endif
