#include "kernels/fake_quantize/generic.h"

#if INTACT_ARCH_NEON
#include "base/vector/neon.h"

namespace intact {

const FakeQuantizeOps fake_quantize_neon = fake_quantize_loops::ops_of<Neon>();

}  // namespace intact
#endif
