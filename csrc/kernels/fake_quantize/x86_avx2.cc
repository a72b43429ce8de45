// 8 lanes a step; tails are masked. Memory-bound: the division hides behind the loads.
#include "kernels/fake_quantize/fake_quantize.h"

#if INTACT_ARCH_X86
#include <immintrin.h>

namespace intact {
namespace {

struct Lanes {
  __m256 scale, low, high;
};

// Operand order matters: min and max return the second operand when either is NaN.
inline __m256 step(__m256 x, const Lanes& p) {
  __m256 v = _mm256_div_ps(x, p.scale);
  v = _mm256_min_ps(p.high, _mm256_max_ps(p.low, v));
  v = _mm256_round_ps(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  return _mm256_mul_ps(_mm256_add_ps(v, _mm256_setzero_ps()), p.scale);
}

inline __m256i first_lanes(size_t n) {
  const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(n)), lane);
}

inline Lanes shared_lanes(const Grid& g) {
  return {_mm256_set1_ps(*g.scale), _mm256_set1_ps(*g.low), _mm256_set1_ps(*g.high)};
}

inline Lanes lanes_at(const Grid& g, size_t i) {
  return {_mm256_loadu_ps(g.scale + i), _mm256_loadu_ps(g.low + i), _mm256_loadu_ps(g.high + i)};
}

inline Lanes masked_lanes_at(const Grid& g, size_t i, __m256i mask) {
  return {_mm256_maskload_ps(g.scale + i, mask), _mm256_maskload_ps(g.low + i, mask),
          _mm256_maskload_ps(g.high + i, mask)};
}

inline void masked(const float* x, __m256i mask, const Lanes& p, float* y) {
  _mm256_maskstore_ps(y, mask, step(_mm256_maskload_ps(x, mask), p));
}

void run_shared(const float* x, size_t n, const Grid& grid, float* y) {
  const Lanes p = shared_lanes(grid);
  size_t i = 0;
  for (; i + 8 <= n; i += 8) _mm256_storeu_ps(y + i, step(_mm256_loadu_ps(x + i), p));
  if (i < n) masked(x + i, first_lanes(n - i), p, y + i);
}

void run_each(const float* x, size_t n, const Grid& grid, float* y) {
  size_t i = 0;
  for (; i + 8 <= n; i += 8) {
    _mm256_storeu_ps(y + i, step(_mm256_loadu_ps(x + i), lanes_at(grid, i)));
  }
  const __m256i tail = first_lanes(n - i);
  if (i < n) masked(x + i, tail, masked_lanes_at(grid, i, tail), y + i);
}

void run(const float* x, size_t n, const Grid& grid, float* y) {
  (grid.shared ? run_shared : run_each)(x, n, grid, y);
}

}  // namespace

const FakeQuantizeOps fake_quantize_avx2 = {run};

}  // namespace intact
#endif
