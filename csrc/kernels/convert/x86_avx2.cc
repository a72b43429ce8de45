#include "kernels/convert/generic.h"

#if INTACT_ARCH_X86
#include "base/vector/avx2.h"

namespace intact {

const ConvertOps convert_avx2 = convert_loops::ops_of<Avx2>();

}  // namespace intact
#endif
