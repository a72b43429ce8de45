#include "kernels/reduce/generic.h"

#if INTACT_ARCH_NEON
#include "base/vector/neon.h"

namespace intact {

const ReduceOps reduce_neon = reduce_loops::ops_of<Neon>();

}  // namespace intact
#endif
