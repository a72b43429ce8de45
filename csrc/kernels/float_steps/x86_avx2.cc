// 8 floats at a time; the parts of rows through masks.
#include "kernels/float_steps/loops.h"

#if INTACT_ARCH_X86
#include "base/vector/avx2.h"

namespace intact {

const FloatOps float_steps_avx2 = float_steps::ops_of<Avx2>();

}  // namespace intact
#endif
