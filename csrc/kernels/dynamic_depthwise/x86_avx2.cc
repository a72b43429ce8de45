#include "kernels/dynamic_depthwise/generic.h"

#if INTACT_ARCH_X86
#include "base/vector/avx2.h"

namespace intact {

const DynamicDepthwiseOps dynamic_depthwise_avx2 = dynamic_depthwise_loops::ops_of<Avx2>();

}  // namespace intact
#endif
