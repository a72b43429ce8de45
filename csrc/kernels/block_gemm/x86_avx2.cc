// vpmaddubsw: pairs of products in words. 8 of them fit where codes have 4 bits, 8 * 2 * 15 * 128 = 30,720;
// those of 8 bits are multiplied half by half.
#include "kernels/block_gemm/float_rows.h"

#if INTACT_ARCH_X86
#include "base/vector/avx2.h"
#include "kernels/block_gemm/table_avx2.h"

namespace intact {
namespace {

struct Words256 : TableAvx2 {
  using V = Avx2;
  static constexpr int kOffset = 0, kGroups = 1, kVectors = 1, kPanels = 1;
  static constexpr bool kReadsHighBits = false;

  static constexpr size_t kWhole = 4;  // units whose products fit

  template <int kBits, int kRows, int kVectors>
  static INTACT_INLINE void add(__m256i (&acc)[kRows][kVectors], const uint8_t* codes, size_t /*panel_bytes*/,
                                const int8_t* const (&x)[1], size_t units) {
    const __m256i low = _mm256_set1_epi8(15);
    for (size_t unit = 0; unit < units;) {
      const size_t end = unit + kWhole < units ? unit + kWhole : units;
      if (kBits == 4) {
        add_words<kRows, kVectors>(acc, codes, 64, x, unit, end, 1,
                                   [&](const uint8_t* p, __m256i& a, __m256i& b) {
                                     if (kRows == 1) block_gemm::prefetch<32>(p);
                                     const __m256i both = V::load_int(p);
                                     a = _mm256_and_si256(both, low);
                                     b = _mm256_and_si256(_mm256_srli_epi16(both, 4), low);
                                   });
      } else {
        add_words<kRows, kVectors>(acc, codes, 128, x, unit, end, 1,
                                   [&](const uint8_t* p, __m256i& a, __m256i& b) {
                                     a = _mm256_and_si256(V::load_int(p), low);
                                     b = _mm256_and_si256(V::load_int(p + 64), low);
                                   });
        add_words<kRows, kVectors>(acc, codes, 128, x, unit, end, 16,
                                   [&](const uint8_t* p, __m256i& a, __m256i& b) {
                                     a = _mm256_and_si256(_mm256_srli_epi16(V::load_int(p), 4), low);
                                     b = _mm256_and_si256(_mm256_srli_epi16(V::load_int(p + 64), 4), low);
                                   });
      }
      codes += (end - unit) * (kBits * 16);
      unit = end;
    }
  }

  template <int kRows, int kVectors, class Load>
  static INTACT_INLINE void add_words(__m256i (&acc)[kRows][kVectors], const uint8_t* codes, size_t bytes,
                                      const int8_t* const (&x)[1], size_t unit, size_t end, int factor,
                                      const Load& load) {
    const __m256i factors = _mm256_set1_epi16(static_cast<int16_t>(factor));
    __m256i sums[kRows][kVectors];
    for (int r = 0; r < kRows; ++r) {
      for (int v = 0; v < kVectors; ++v) sums[r][v] = _mm256_setzero_si256();
    }
    for (; unit < end; ++unit, codes += bytes) {
      INTACT_UNROLL("GCC unroll 2")
      for (int v = 0; v < kVectors; ++v) {
        __m256i first, second;
        load(codes + 32 * v, first, second);
        INTACT_UNROLL("GCC unroll 4")
        for (int r = 0; r < kRows; ++r) {
          const __m256i fours = _mm256_set1_epi32(block_gemm::four(x[0], 2 * unit, r));
          const __m256i others = _mm256_set1_epi32(block_gemm::four(x[0], 2 * unit + 1, r));
          sums[r][v] = V::add_words(sums[r][v], V::pair_bytes(first, fours));
          sums[r][v] = V::add_words(sums[r][v], V::pair_bytes(second, others));
        }
      }
    }
    for (int r = 0; r < kRows; ++r) {
      for (int v = 0; v < kVectors; ++v)
        acc[r][v] = V::add_int(acc[r][v], V::pair_words(sums[r][v], factors));
    }
  }
};

}  // namespace

void block_gemm::float_rows4_avx2(const BlockFloatRows& g) { float_rows4<Words256>(g); }
void block_gemm::float_rows8_avx2(const BlockFloatRows& g) { float_rows<Avx2, 8>(g); }

const BlockGemmOps block_gemm_avx2 =
    block_gemm::ops_of<Words256>(block_gemm::float_rows4_avx2, block_gemm::float_rows8_avx2);

}  // namespace intact
#endif
