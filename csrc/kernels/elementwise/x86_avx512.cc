// Products of int64 and masks have instructions; registers hold 64 bytes.
#include "kernels/elementwise/rows.h"

#if INTACT_ARCH_X86

namespace intact {

const ElementwiseOps elementwise_avx512 = ops_of<convert_avx512>();

}  // namespace intact
#endif
