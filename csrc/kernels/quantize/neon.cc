#include "kernels/quantize/generic.h"

#if INTACT_ARCH_NEON
#include "base/vector/neon.h"

namespace intact {

const QuantizeOps quantize_neon = quantize_loops::ops_of<Neon>();

}  // namespace intact
#endif
