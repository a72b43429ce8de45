// vpmaddwd and vpaddd: two products and their sum in two instructions.
#include "base/cpu.h"

#if INTACT_ARCH_X86
#include "kernels/winograd/avx2.h"

namespace intact {
namespace {

struct Dot {
  static __m256i add(__m256i sums, __m256i a, __m256i b) {
    return _mm256_add_epi32(sums, _mm256_madd_epi16(a, b));
  }
};

}  // namespace

const WinogradOps winograd_avx2 = winograd::avx2_ops_of<Dot>(&gemm_avx2, {1.6, 430, 500});

}  // namespace intact
#endif
