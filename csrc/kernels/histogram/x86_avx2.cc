#include "kernels/histogram/generic.h"

#if INTACT_ARCH_X86
#include "base/vector/avx2.h"

namespace intact {

const HistogramOps histogram_avx2 = histogram_loops::ops_of<Avx2>();

}  // namespace intact
#endif
