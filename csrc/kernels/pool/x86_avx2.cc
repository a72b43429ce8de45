#include "kernels/pool/generic.h"

#if INTACT_ARCH_X86
#include "base/vector/avx2.h"

namespace intact {

const PoolOps pool_avx2 = pool_loops::ops_of<Avx2>();

}  // namespace intact
#endif
