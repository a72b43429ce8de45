#include "kernels/quantize/generic.h"

#if INTACT_ARCH_X86
#include "base/vector/avx512.h"

namespace intact {

const QuantizeOps quantize_avx512 = quantize_loops::ops_of<Avx512>();

}  // namespace intact
#endif
