#include "kernels/transpose/generic.h"

#if INTACT_ARCH_NEON
#include "base/vector/neon.h"

namespace intact {

const TransposeOps transpose_neon = transpose_loops::ops_of<Neon>();

}  // namespace intact
#endif
