#include "kernels/fake_quantize_grad/generic.h"

#if INTACT_ARCH_X86
#include "base/vector/avx512.h"

namespace intact {

const FakeQuantizeGradOps fake_quantize_grad_avx512 = fake_quantize_grad_loops::ops_of<Avx512>();

}  // namespace intact
#endif
