#include "kernels/histogram/generic.h"

#if INTACT_ARCH_X86
#include "base/vector/avx512.h"

namespace intact {

const HistogramOps histogram_avx512 = histogram_loops::ops_of<Avx512>();

}  // namespace intact
#endif
