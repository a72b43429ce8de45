// vpdpbusd: four products and their sum in one instruction, exact. Blocks of 64 channels; what remains is cut
// into 32 and 16 lanes.
#include "base/cpu.h"

#if INTACT_ARCH_X86
#include <immintrin.h>

#include "kernels/depthwise/fours.h"

namespace intact {
namespace {

#define INTACT_WIDTH(Name, kBytes, Integers, Floats, MaskType, P)                               \
  struct Name {                                                                                 \
    INTACT_LANES(kBytes, Integers, Floats, P)                                                   \
    using Mask = MaskType;                                                                      \
    static Mask mask(int bytes) { return static_cast<Mask>(~uint64_t{0} >> (64 - bytes)); }     \
    static INTACT_INLINE Int load(const void* p) { return P##_loadu_epi8(p); }                  \
    static INTACT_INLINE Int load(const void* p, Mask m) { return P##_maskz_loadu_epi8(m, p); } \
    static INTACT_INLINE void store(void* p, Int v) { P##_storeu_epi8(p, v); }                  \
    static INTACT_INLINE void store(void* p, Mask m, Int v) { P##_mask_storeu_epi8(p, m, v); }  \
    static INTACT_INLINE Int dot(Int acc, Int x, Int w) { return P##_dpbusd_epi32(acc, x, w); } \
  };
INTACT_WIDTH(Wide, 64, __m512i, __m512, __mmask64, _mm512)
INTACT_WIDTH(Half, 32, __m256i, __m256, __mmask32, _mm256)
INTACT_WIDTH(Narrow, 16, __m128i, __m128, __mmask16, _mm)
#undef INTACT_WIDTH

size_t packed_bytes(const DepthwiseWeights& w) { return fours::packed_bytes(w, Wide::kWidth); }

void pack(const DepthwiseWeights& w, uint8_t* packed) { fours::pack(w, Wide::kWidth, packed); }

void run(const DepthwiseRow& d) {
  fours::each_block<Wide::kWidth>(
      d, [](const fours::Block& block, int width, const ptrdiff_t* offsets, int groups) {
        if (width == 64) fours::work<Wide>(block, offsets, groups);
        if (width == 32) fours::work<Half>(block, offsets, groups);
        if (width == 16) fours::work<Narrow>(block, offsets, groups);
      });
}

}  // namespace

const DepthwiseOps depthwise_avx512vnni = {Wide::kWidth, 0, packed_bytes, pack, run};

}  // namespace intact
#endif
