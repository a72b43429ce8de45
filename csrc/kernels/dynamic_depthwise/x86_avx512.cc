#include "kernels/dynamic_depthwise/generic.h"

#if INTACT_ARCH_X86
#include "base/vector/avx512.h"

namespace intact {

const DynamicDepthwiseOps dynamic_depthwise_avx512 = dynamic_depthwise_loops::ops_of<Avx512>();

}  // namespace intact
#endif
