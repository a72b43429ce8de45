#include "kernels/dynamic_depthwise/generic.h"

#if INTACT_ARCH_NEON
#include "base/vector/neon.h"

namespace intact {

const DynamicDepthwiseOps dynamic_depthwise_neon = dynamic_depthwise_loops::ops_of<Neon>();

}  // namespace intact
#endif
