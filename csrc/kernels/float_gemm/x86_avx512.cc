// Tiles of 12 x 32: 24 sums, 2 registers of b, and a read from memory as it is multiplied.
#include "kernels/float_gemm/generic.h"

#if INTACT_ARCH_X86
#include "base/vector/avx512.h"

namespace intact {

const FloatGemmOps float_gemm_avx512 = float_gemm::ops_of<Avx512, 12, 2>();

}  // namespace intact
#endif
