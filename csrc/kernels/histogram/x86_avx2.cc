// 8 lanes a step; the tail is the reference.
#include "kernels/histogram/histogram.h"

#if INTACT_ARCH_X86
#include <immintrin.h>

namespace intact {
namespace {

inline __m256 magnitude(__m256 x) {
  return _mm256_and_ps(x, _mm256_castsi256_ps(_mm256_set1_epi32(0x7fffffff)));
}

inline float smallest(__m256 v) {
  __m128 m = _mm_min_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  m = _mm_min_ps(m, _mm_movehl_ps(m, m));
  return _mm_cvtss_f32(_mm_min_ss(m, _mm_shuffle_ps(m, m, 1)));
}

inline float largest(__m256 v) {
  __m128 m = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  m = _mm_max_ps(m, _mm_movehl_ps(m, m));
  return _mm_cvtss_f32(_mm_max_ss(m, _mm_shuffle_ps(m, m, 1)));
}

void pow2(const float* x, size_t n, const Pow2Bins& bins, uint32_t* slot, ValueRange& range) {
  const __m256 first = _mm256_set1_ps(bins.first), second = _mm256_set1_ps(bins.second);
  const __m256 end = _mm256_set1_ps(static_cast<float>(bins.bins));
  const __m256i half = _mm256_set1_epi32(static_cast<int>(bins.bins));
  const __m256i rest = _mm256_set1_epi32(static_cast<int>(2 * bins.bins));
  const __m256 inf = _mm256_castsi256_ps(_mm256_set1_epi32(0x7f800000));
  __m256 min = _mm256_set1_ps(range.min), max = _mm256_set1_ps(range.max);
  __m256 finite = _mm256_castsi256_ps(_mm256_set1_epi32(-1));
  size_t i = 0;
  for (; i + 8 <= n; i += 8) {
    const __m256 v = _mm256_loadu_ps(x + i);
    const __m256 size = magnitude(v);
    min = _mm256_min_ps(v, min);
    max = _mm256_max_ps(v, max);
    finite = _mm256_and_ps(finite, _mm256_cmp_ps(size, inf, _CMP_LT_OQ));
    const __m256 position = _mm256_mul_ps(_mm256_mul_ps(size, first), second);
    const __m256 inside = _mm256_cmp_ps(position, end, _CMP_LT_OQ);
    const __m256 negative = _mm256_cmp_ps(v, _mm256_setzero_ps(), _CMP_LT_OQ);
    const __m256i bin = _mm256_cvttps_epi32(position);
    const __m256i s = _mm256_add_epi32(bin, _mm256_and_si256(_mm256_castps_si256(negative), half));
    const __m256i kept = _mm256_blendv_epi8(rest, s, _mm256_castps_si256(inside));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(slot + i), kept);
  }
  if (_mm256_movemask_ps(finite) == 0xff) {
    range.min = smallest(min);
    range.max = largest(max);
  } else {  // rare, and about to be refused: let the reference sort it out, slots included
    i = 0;
  }
  histogram_ref.pow2(x + i, n - i, bins, slot + i, range);
}

void fixed(const float* x, size_t n, const FixedBins& bins, uint32_t* slot) {
  const __m256 width = _mm256_set1_ps(bins.width);
  const __m256 last = _mm256_set1_ps(static_cast<float>(bins.bins - 1));
  const __m256i rest = _mm256_set1_epi32(static_cast<int>(bins.bins));
  size_t i = 0;
  for (; i + 8 <= n; i += 8) {
    const __m256 v = _mm256_loadu_ps(x + i);
    const __m256 position = _mm256_min_ps(_mm256_div_ps(magnitude(v), width), last);
    const __m256i bin = _mm256_cvttps_epi32(position);
    const __m256 nan = _mm256_cmp_ps(v, v, _CMP_UNORD_Q);
    const __m256i kept = _mm256_blendv_epi8(bin, rest, _mm256_castps_si256(nan));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(slot + i), kept);
  }
  histogram_ref.fixed(x + i, n - i, bins, slot + i);
}

}  // namespace

const HistogramOps histogram_avx2 = {pow2, fixed};

}  // namespace intact
#endif
