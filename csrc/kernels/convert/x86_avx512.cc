#include "kernels/convert/generic.h"

#if INTACT_ARCH_X86
#include "base/vector/avx512.h"

namespace intact {

const ConvertOps convert_avx512 = convert_loops::ops_of<Avx512>();

}  // namespace intact
#endif
