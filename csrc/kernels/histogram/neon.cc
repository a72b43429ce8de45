#include "kernels/histogram/generic.h"

#if INTACT_ARCH_NEON
#include "base/vector/neon.h"

namespace intact {

const HistogramOps histogram_neon = histogram_loops::ops_of<Neon>();

}  // namespace intact
#endif
