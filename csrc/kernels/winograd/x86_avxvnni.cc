// vpdpwssd on 256-bit registers, for machines that have it without AVX-512.
#include "base/cpu.h"

#if INTACT_ARCH_X86 && defined(INTACT_AVXVNNI)
#include "base/x86_avxvnni.h"
#include "kernels/winograd/avx2.h"

namespace intact {
namespace {

struct Dot {
  static __m256i add(__m256i sums, __m256i a, __m256i b) { return dot_words(sums, a, b); }
};

}  // namespace

const WinogradOps winograd_avxvnni = winograd::avx2_ops_of<Dot>(&gemm_avxvnni, {2, 670, 800});

}  // namespace intact
#endif
