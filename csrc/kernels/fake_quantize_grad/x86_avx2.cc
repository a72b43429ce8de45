#include "kernels/fake_quantize_grad/generic.h"

#if INTACT_ARCH_X86
#include "base/vector/avx2.h"

namespace intact {

const FakeQuantizeGradOps fake_quantize_grad_avx2 = fake_quantize_grad_loops::ops_of<Avx2>();

}  // namespace intact
#endif
