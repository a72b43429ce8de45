#include "kernels/fake_quantize_grad/generic.h"

#if INTACT_ARCH_NEON
#include "base/vector/neon.h"

namespace intact {

const FakeQuantizeGradOps fake_quantize_grad_neon = fake_quantize_grad_loops::ops_of<Neon>();

}  // namespace intact
#endif
