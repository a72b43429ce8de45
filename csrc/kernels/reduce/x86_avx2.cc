#include "kernels/reduce/generic.h"

#if INTACT_ARCH_X86
#include "base/vector/avx2.h"

namespace intact {

const ReduceOps reduce_avx2 = reduce_loops::ops_of<Avx2>();

}  // namespace intact
#endif
