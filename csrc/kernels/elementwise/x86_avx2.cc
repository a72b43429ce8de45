// Rounding has an instruction, which the baseline lacks; registers hold 32 bytes.
#include "kernels/elementwise/rows.h"

#if INTACT_ARCH_X86

namespace intact {

const ElementwiseOps elementwise_avx2 = ops_of<convert_avx2>();

}  // namespace intact
#endif
