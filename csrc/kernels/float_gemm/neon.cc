// Tiles of 6 x 16: 24 sums, 4 registers of b and one of a.
#include "kernels/float_gemm/generic.h"

#if INTACT_ARCH_NEON
#include "base/vector/neon.h"

namespace intact {

const FloatGemmOps float_gemm_neon = float_gemm::ops_of<Neon, 6, 4>();

}  // namespace intact
#endif
