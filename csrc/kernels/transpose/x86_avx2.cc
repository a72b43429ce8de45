#include "kernels/transpose/generic.h"

#if INTACT_ARCH_X86
#include "base/vector/avx2.h"

namespace intact {

const TransposeOps transpose_avx2 = transpose_loops::ops_of<Avx2>();

}  // namespace intact
#endif
