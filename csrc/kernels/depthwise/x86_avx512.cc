// vpdpbusd: four products and their sum in one instruction, exact. Blocks of 64 channels; what remains is cut
// into 32 and 16 lanes.
#include "base/cpu.h"

#if INTACT_ARCH_X86
#include "base/vector/avx512.h"
#include "kernels/depthwise/fours.h"

namespace intact {
namespace {

// Of a table, the entry that the low bits of a float say.
INTACT_INLINE __m512 cell_of(const float* table, __m512 i) {
  return _mm512_permutex2var_ps(_mm512_loadu_ps(table), _mm512_castps_si512(i), _mm512_loadu_ps(table + 16));
}
INTACT_INLINE __m256 cell_of(const float* table, __m256 i) {
  const __m256i low = _mm256_and_si256(_mm256_castps_si256(i), _mm256_set1_epi32(kCells - 1));
  return _mm256_i32gather_ps(table, low, 4);
}
INTACT_INLINE __m128 cell_of(const float* table, __m128 i) {
  return _mm_i32gather_ps(table, _mm_and_si128(_mm_castps_si128(i), _mm_set1_epi32(kCells - 1)), 4);
}

#define INTACT_WIDTH(Name, V, MaskType, P)                                                             \
  struct Name : V {                                                                                    \
    using Mask = MaskType;                                                                             \
    static Mask mask(int bytes) { return static_cast<Mask>(~uint64_t{0} >> (64 - bytes)); }            \
    static INTACT_INLINE Bytes load_tail(const void* p, Mask m) { return P##_maskz_loadu_epi8(m, p); } \
    static INTACT_INLINE void store_tail(void* p, Bytes v, Mask m) { P##_mask_storeu_epi8(p, m, v); }  \
    static INTACT_INLINE Ints dot(Ints acc, Ints x, Bytes w) { return P##_dpbusd_epi32(acc, x, w); }   \
    static INTACT_INLINE bool differ(Bytes a, Bytes b) { return P##_cmpneq_epi8_mask(a, b) != 0; }     \
    static INTACT_INLINE Floats cell(const float* t, Floats i) { return {cell_of(t, i.v)}; }           \
  };
INTACT_WIDTH(Wide, Avx512, __mmask64, _mm512)
INTACT_WIDTH(Half, Avx2, __mmask32, _mm256)
INTACT_WIDTH(Narrow, Sse, __mmask16, _mm)
#undef INTACT_WIDTH
constexpr int kWidest = Wide::kBytes;

size_t packed_bytes(const DepthwiseWeights& w) { return fours::packed_bytes(w, kWidest); }

void pack(const DepthwiseWeights& w, uint8_t* packed) { fours::pack(w, kWidest, packed); }

void run(const DepthwiseRow& d) {
  fours::each_block<kWidest>(d,
                             [](const fours::Block& block, int width, const ptrdiff_t* offsets, int groups) {
                               if (width == 64) fours::work<Wide>(block, offsets, groups);
                               if (width == 32) fours::work<Half>(block, offsets, groups);
                               if (width == 16) fours::work<Narrow>(block, offsets, groups);
                             });
}

}  // namespace

const DepthwiseOps depthwise_avx512vnni = {kWidest, 0, packed_bytes, pack, run, FunctionBounds::all};

}  // namespace intact
#endif
