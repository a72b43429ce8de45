#include "kernels/pool/generic.h"

#if INTACT_ARCH_NEON
#include "base/vector/neon.h"

namespace intact {

const PoolOps pool_neon = pool_loops::ops_of<Neon>();

}  // namespace intact
#endif
