#include "kernels/reduce/generic.h"

#if INTACT_ARCH_X86
#include "base/vector/avx512.h"

namespace intact {

const ReduceOps reduce_avx512 = reduce_loops::ops_of<Avx512>();

}  // namespace intact
#endif
