// Tiles of 6 x 16: 12 sums, 2 registers of b and one of a.
#include "kernels/float_gemm/generic.h"

#if INTACT_ARCH_X86
#include "base/vector/avx2.h"

namespace intact {

const FloatGemmOps float_gemm_avx2 = float_gemm::ops_of<Avx2, 6, 2>();

}  // namespace intact
#endif
