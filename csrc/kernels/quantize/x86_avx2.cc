#include "kernels/quantize/generic.h"

#if INTACT_ARCH_X86
#include "base/vector/avx2.h"

namespace intact {

const QuantizeOps quantize_avx2 = quantize_loops::ops_of<Avx2>();

}  // namespace intact
#endif
