#include "kernels/dynamic_quantize/generic.h"

#if INTACT_ARCH_NEON
#include "base/vector/neon.h"

namespace intact {

const DynamicQuantizeOps dynamic_quantize_neon = dynamic_quantize_loops::ops_of<Neon>();

}  // namespace intact
#endif
