// 32 words or 16 sums at a time; vpdpwssd: two products and their sum in one instruction.
#include "kernels/winograd/generic.h"

#if INTACT_ARCH_X86
#include "base/vector/avx512.h"

namespace intact {
namespace {

struct Dot {
  static INTACT_INLINE __m512i add(__m512i sums, __m512i a, __m512i b) {
    return _mm512_dpwssd_epi32(sums, a, b);
  }
};
using Set = winograd::Neighbours<Avx512, Dot>;

void multiply(const WinogradProduct& p) {
  switch (p.width / Set::kSums) {
    case 1: return winograd::multiply_rows<Set, 1, 12>(p);
    case 2: return winograd::multiply_rows<Set, 2, 12>(p);
    case 3: return winograd::multiply_rows<Set, 3, 9>(p);
    default: return winograd::multiply_rows<Set, 4, 6>(p);
  }
}

}  // namespace

const WinogradOps winograd_avx512vnni = winograd::ops_of<Set>(&gemm_avx512vnni, 4, {2, 670, 800}, multiply);

}  // namespace intact
#endif
