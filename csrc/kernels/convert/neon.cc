#include "kernels/convert/generic.h"

#if INTACT_ARCH_NEON
#include "base/vector/neon.h"

namespace intact {

const ConvertOps convert_neon = convert_loops::ops_of<Neon>();

}  // namespace intact
#endif
