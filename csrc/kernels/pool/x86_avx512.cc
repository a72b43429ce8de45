#include "kernels/pool/generic.h"

#if INTACT_ARCH_X86
#include "base/vector/avx512.h"

namespace intact {

// The largest of a few bytes waits for memory, where 64 of them lie on two lines as often as not.
const PoolOps pool_avx512 = {pool_loops::max<Avx2>, pool_loops::mean<Avx512>};

}  // namespace intact
#endif
