#include "kernels/pointwise/generic.h"

#if INTACT_ARCH_X86
#include "base/vector/avx2.h"

namespace intact {

const PointwiseOps pointwise_avx2 = pointwise_loops::ops_of<Avx2>(pointwise_loops::lookup_by_loads<Avx2>);

}  // namespace intact
#endif
