// vpdpbusd: four products and their sum in one instruction, exact. Blocks of 64 channels; where up to 32
// remain, of 32. Of a tail whole registers are read, as `slack` allows: masks cost an instruction for each
// load of bytes, and none for stores.
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
  return _mm512_castps512_ps256(cell_of(table, _mm512_castps256_ps512(i)));
}

#define INTACT_WIDTH(Name, V, MaskType, P)                                                            \
  struct Name : V {                                                                                   \
    using Mask = MaskType;                                                                            \
    using Ends = Name;                                                                                \
    static constexpr bool kMasks = true;                                                              \
    static constexpr int kRegisters = 32;                                                             \
    static Mask mask(int bytes) { return static_cast<Mask>(~uint64_t{0} >> (64 - bytes)); }           \
    static INTACT_INLINE void store_tail(void* p, Bytes v, Mask m) { P##_mask_storeu_epi8(p, m, v); } \
    static INTACT_INLINE Ints dot(Ints acc, Ints x, Bytes w) { return P##_dpbusd_epi32(acc, x, w); }  \
    static INTACT_INLINE bool differ(Bytes a, Bytes b) { return P##_cmpneq_epi8_mask(a, b) != 0; }    \
    static INTACT_INLINE Floats cell(const float* t, Floats i) { return {cell_of(t, i.v)}; }          \
  };
INTACT_WIDTH(Wide, Avx512, __mmask64, _mm512)
INTACT_WIDTH(Half, Avx2, __mmask32, _mm256)
#undef INTACT_WIDTH
constexpr int kWidest = Wide::kBytes;

size_t packed_bytes(const DepthwiseWeights& w) { return fours::packed_bytes(w, kWidest); }

void pack(const DepthwiseWeights& w, uint8_t* packed) { fours::pack(w, kWidest, packed); }

void run(const DepthwiseRow& d) {
  fours::each_block<kWidest>(d,
                             [](const fours::Block& block, int width, const ptrdiff_t* offsets, int groups) {
                               if (width == 64) fours::work<Wide>(block, offsets, groups);
                               if (width == 32) fours::work<Half>(block, offsets, groups);
                             });
}

}  // namespace

const DepthwiseOps depthwise_avx512vnni = {kWidest, kWidest, packed_bytes, pack, run, FunctionBounds::all};

}  // namespace intact
#endif
