// vpdpwssd on 256-bit registers, for machines that have it without AVX-512.
#include "base/cpu.h"

#if INTACT_ARCH_X86 && defined(INTACT_AVXVNNI)
#include "kernels/winograd/avx2.h"

namespace intact {
namespace {

// AVX-512's form of the instruction gives the same bits: tests run this file's logic through it.
struct Dot {
  static __m256i add(__m256i sums, __m256i a, __m256i b) {
#if defined(__AVX512VNNI__) && defined(__AVX512VL__)
    return _mm256_dpwssd_epi32(sums, a, b);
#else
    return _mm256_dpwssd_avx_epi32(sums, a, b);
#endif
  }
};
using Set = winograd::Avx2<Dot>;

}  // namespace

const WinogradOps winograd_avxvnni = {&gemm_avxvnni,
                                      2,
                                      {2, 670, 800},
                                      winograd::transform_input<Set>,
                                      winograd::transform_weights<Set>,
                                      winograd::multiply<Set, 6>,
                                      winograd::transform_output<Set>};

}  // namespace intact
#endif
