// The meaning of the family, in the fewest lines.
#include "kernels/fake_quantize_grad/fake_quantize_grad.h"

namespace intact {
namespace {

void run(const float* grad, const float* x, size_t n, const Grid& grid, float* y) {
  for (size_t i = 0; i < n; ++i) {
    const size_t p = grid.shared ? 0 : i;
    y[i] = x[i] >= grid.low[p] && x[i] <= grid.high[p] ? grad[i] : 0.0f;
  }
}

}  // namespace

const FakeQuantizeGradOps fake_quantize_grad_ref = {run};

}  // namespace intact
