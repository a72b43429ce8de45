// 4 floats at a time.
#include "kernels/float_steps/loops.h"

#if INTACT_ARCH_NEON
#include "base/vector/neon.h"

namespace intact {

const FloatOps float_steps_neon = float_steps::ops_of<Neon>();

}  // namespace intact
#endif
