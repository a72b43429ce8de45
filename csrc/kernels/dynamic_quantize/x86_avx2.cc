#include "kernels/dynamic_quantize/generic.h"

#if INTACT_ARCH_X86
#include "base/vector/avx2.h"

namespace intact {

const DynamicQuantizeOps dynamic_quantize_avx2 = dynamic_quantize_loops::ops_of<Avx2>();

}  // namespace intact
#endif
