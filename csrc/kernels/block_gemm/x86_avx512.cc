// vpdpbusd on 512-bit registers: one holds four elements of a panel's 16 outputs.
#include "kernels/block_gemm/generic.h"

#if INTACT_ARCH_X86
#include "base/vector/avx512.h"

namespace intact {
namespace {

struct Vnni512 {
  using V = Avx512;
  static constexpr int kOffset = 0, kGroups = 3, kVectors = 1;

  template <int kBits, int kRows, size_t kParts>
  static INTACT_INLINE void add(__m512i (&acc)[kRows][1], const uint8_t* codes,
                                const int8_t* const (&x)[kParts], size_t units) {
    const __m512i low = _mm512_set1_epi8(15);
    for (size_t k = 0; k < 2 * units; k += 2, codes += kBits * 16) {
      __m512i first = V::load_int(codes), second;
      if (kBits == 4) {
        second = _mm512_and_si512(_mm512_srli_epi16(first, 4), low);
        first = _mm512_and_si512(first, low);
      } else {
        second = V::load_int(codes + 64);
      }
      INTACT_UNROLL("GCC unroll 12")
      for (int r = 0; r < kRows; ++r) {
        const __m512i fours = _mm512_set1_epi32(block_gemm::four(x[r / 4], k, r % 4));
        acc[r][0] = _mm512_dpbusd_epi32(acc[r][0], first, fours);
      }
      INTACT_UNROLL("GCC unroll 12")
      for (int r = 0; r < kRows; ++r) {
        const __m512i fours = _mm512_set1_epi32(block_gemm::four(x[r / 4], k + 1, r % 4));
        acc[r][0] = _mm512_dpbusd_epi32(acc[r][0], second, fours);
      }
    }
  }
};

}  // namespace

const BlockGemmOps block_gemm_vnni = block_gemm::ops_of<Vnni512>();

}  // namespace intact
#endif
