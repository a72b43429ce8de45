// vpdpbusd on 256-bit registers, for machines that have it without AVX-512.
#include "kernels/block_gemm/float_rows.h"

#if INTACT_ARCH_X86 && defined(INTACT_AVXVNNI)
#include "base/vector/avx2.h"
#include "base/x86_avxvnni.h"
#include "kernels/block_gemm/table_avx2.h"

namespace intact {
namespace {

struct Vnni256 : TableAvx2 {
  using V = Avx2;
  static constexpr int kOffset = 0, kGroups = 1, kVectors = 1, kPanels = 1;
  static constexpr bool kReadsHighBits = false;

  template <int kBits, int kRows, int kVectors, size_t kParts>
  static INTACT_INLINE void add(__m256i (&acc)[kRows][kVectors], const uint8_t* codes, size_t /*panel_bytes*/,
                                const int8_t* const (&x)[kParts], size_t units) {
    const __m256i low = _mm256_set1_epi8(15);
    for (size_t k = 0; k < 2 * units; k += 2, codes += kBits * 16) {
      INTACT_UNROLL("GCC unroll 2")
      for (int v = 0; v < kVectors; ++v) {
        __m256i first = V::load_int(codes + 32 * v), second;
        if (kBits == 4) {
          second = _mm256_and_si256(_mm256_srli_epi16(first, 4), low);
          first = _mm256_and_si256(first, low);
        } else {
          second = V::load_int(codes + 64 + 32 * v);
        }
        INTACT_UNROLL("GCC unroll 4")
        for (int r = 0; r < kRows; ++r) {
          acc[r][v] = dot(acc[r][v], first, _mm256_set1_epi32(block_gemm::four(x[0], k, r)));
          acc[r][v] = dot(acc[r][v], second, _mm256_set1_epi32(block_gemm::four(x[0], k + 1, r)));
        }
      }
    }
  }
};

}  // namespace

const BlockGemmOps block_gemm_avxvnni =
    block_gemm::ops_of<Vnni256>(block_gemm::float_rows4_avx2, block_gemm::float_rows8_avx2);

}  // namespace intact
#endif
