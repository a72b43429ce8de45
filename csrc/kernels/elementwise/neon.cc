// Registers hold 16 bytes.
#include "kernels/elementwise/rows.h"

#if INTACT_ARCH_NEON

namespace intact {

const ElementwiseOps elementwise_neon = ops_of<convert_neon>();

}  // namespace intact
#endif
