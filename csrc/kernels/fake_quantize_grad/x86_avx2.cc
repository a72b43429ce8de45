// 8 lanes a step; tails are masked.
#include "kernels/fake_quantize_grad/fake_quantize_grad.h"

#if INTACT_ARCH_X86
#include <immintrin.h>

namespace intact {
namespace {

inline __m256 step(__m256 grad, __m256 x, __m256 low, __m256 high) {
  const __m256 above = _mm256_cmp_ps(x, low, _CMP_GE_OQ);
  const __m256 below = _mm256_cmp_ps(x, high, _CMP_LE_OQ);
  return _mm256_and_ps(grad, _mm256_and_ps(above, below));
}

inline __m256i first_lanes(size_t n) {
  const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(n)), lane);
}

struct Bounds {
  __m256 low, high;
};

inline Bounds bounds_at(const Grid& g, size_t i) {
  if (g.shared) return {_mm256_set1_ps(*g.low), _mm256_set1_ps(*g.high)};
  return {_mm256_loadu_ps(g.low + i), _mm256_loadu_ps(g.high + i)};
}

inline Bounds masked_bounds_at(const Grid& g, size_t i, __m256i mask) {
  if (g.shared) return bounds_at(g, i);
  return {_mm256_maskload_ps(g.low + i, mask), _mm256_maskload_ps(g.high + i, mask)};
}

inline void masked(const float* grad, const float* x, __m256i mask, const Bounds& b, float* y) {
  const __m256 v = step(_mm256_maskload_ps(grad, mask), _mm256_maskload_ps(x, mask), b.low, b.high);
  _mm256_maskstore_ps(y, mask, v);
}

void run(const float* grad, const float* x, size_t n, const Grid& grid, float* y) {
  size_t i = 0;
  for (; i + 8 <= n; i += 8) {
    const Bounds b = bounds_at(grid, i);
    _mm256_storeu_ps(y + i, step(_mm256_loadu_ps(grad + i), _mm256_loadu_ps(x + i), b.low, b.high));
  }
  const __m256i tail = first_lanes(n - i);
  if (i < n) masked(grad + i, x + i, tail, masked_bounds_at(grid, i, tail), y + i);
}

}  // namespace

const FakeQuantizeGradOps fake_quantize_grad_avx2 = {run};

}  // namespace intact
#endif
