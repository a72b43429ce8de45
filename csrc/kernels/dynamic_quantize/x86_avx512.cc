#include "kernels/dynamic_quantize/generic.h"

#if INTACT_ARCH_X86
#include "base/vector/avx512.h"

namespace intact {

const DynamicQuantizeOps dynamic_quantize_avx512 = dynamic_quantize_loops::ops_of<Avx512>();

}  // namespace intact
#endif
