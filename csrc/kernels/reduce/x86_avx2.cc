// 8 lanes a step, four chains. Magnitudes compare as integers: the bits of |x| are ordered, NaN above
// infinity, so that one vpmaxud also propagates NaN.
#include "kernels/reduce/reduce.h"

#if INTACT_ARCH_X86
#include <immintrin.h>

namespace intact {
namespace {

constexpr int kChains = 4;

inline __m256i magnitude_bits(const float* x) {
  const __m256i bits = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(x));
  return _mm256_and_si256(bits, _mm256_set1_epi32(0x7fffffff));
}

inline __m256i first_lanes(size_t n) {
  const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(n)), lane);
}

inline float largest_magnitude(__m256i v) {
  __m128i m = _mm_max_epu32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
  m = _mm_max_epu32(m, _mm_shuffle_epi32(m, 0x4e));
  m = _mm_max_epu32(m, _mm_shuffle_epi32(m, 0xb1));
  return _mm_cvtss_f32(_mm_castsi128_ps(m));
}

float absmax(const float* x, size_t n) {
  __m256i top[kChains] = {_mm256_setzero_si256(), _mm256_setzero_si256(), _mm256_setzero_si256(),
                          _mm256_setzero_si256()};
  size_t i = 0;
  for (; i + 8 * kChains <= n; i += 8 * kChains) {
    for (int k = 0; k < kChains; ++k) top[k] = _mm256_max_epu32(top[k], magnitude_bits(x + i + 8 * k));
  }
  for (; i + 8 <= n; i += 8) top[0] = _mm256_max_epu32(top[0], magnitude_bits(x + i));
  if (i < n) {
    const __m256 tail = _mm256_maskload_ps(x + i, first_lanes(n - i));
    const __m256i bits = _mm256_and_si256(_mm256_castps_si256(tail), _mm256_set1_epi32(0x7fffffff));
    top[1] = _mm256_max_epu32(top[1], bits);
  }
  top[0] = _mm256_max_epu32(_mm256_max_epu32(top[0], top[1]), _mm256_max_epu32(top[2], top[3]));
  return largest_magnitude(top[0]);
}

struct Running {
  __m256 min, max, nan;  // nan: all ones in lanes that met one
};

// min and max return the second operand when either is NaN, so a NaN only shows in `nan`.
inline void fold(__m256 x, Running& r) {
  r.min = _mm256_min_ps(x, r.min);
  r.max = _mm256_max_ps(x, r.max);
  r.nan = _mm256_or_ps(r.nan, _mm256_cmp_ps(x, x, _CMP_UNORD_Q));
}

inline MinMax finish(const Running& r) {
  if (_mm256_movemask_ps(r.nan) != 0) {
    const float nan = _mm_cvtss_f32(_mm_castsi128_ps(_mm_set1_epi32(0x7fc00000)));
    return {nan, nan};
  }
  __m128 low = _mm_min_ps(_mm256_castps256_ps128(r.min), _mm256_extractf128_ps(r.min, 1));
  __m128 high = _mm_max_ps(_mm256_castps256_ps128(r.max), _mm256_extractf128_ps(r.max, 1));
  low = _mm_min_ps(low, _mm_movehl_ps(low, low));
  high = _mm_max_ps(high, _mm_movehl_ps(high, high));
  low = _mm_min_ss(low, _mm_shuffle_ps(low, low, 1));
  high = _mm_max_ss(high, _mm_shuffle_ps(high, high, 1));
  return {_mm_cvtss_f32(low), _mm_cvtss_f32(high)};
}

MinMax minmax(const float* x, size_t n) {
  const __m256 inf = _mm256_castsi256_ps(_mm256_set1_epi32(0x7f800000));
  const __m256 minus_inf = _mm256_castsi256_ps(_mm256_set1_epi32(static_cast<int>(0xff800000)));
  const Running start = {inf, minus_inf, _mm256_setzero_ps()};
  Running r[2] = {start, start};
  size_t i = 0;
  for (; i + 16 <= n; i += 16) {
    fold(_mm256_loadu_ps(x + i), r[0]);
    fold(_mm256_loadu_ps(x + i + 8), r[1]);
  }
  if (i + 8 <= n) {
    fold(_mm256_loadu_ps(x + i), r[0]);
    i += 8;
  }
  if (i < n) {  // lanes beyond the end repeat x[i]
    const __m256i mask = first_lanes(n - i);
    const __m256 tail = _mm256_maskload_ps(x + i, mask);
    fold(_mm256_blendv_ps(_mm256_set1_ps(x[i]), tail, _mm256_castsi256_ps(mask)), r[1]);
  }
  r[0].min = _mm256_min_ps(r[0].min, r[1].min);
  r[0].max = _mm256_max_ps(r[0].max, r[1].max);
  r[0].nan = _mm256_or_ps(r[0].nan, r[1].nan);
  return finish(r[0]);
}

void absmax_each(const float* x, size_t n, float* amax) {
  size_t i = 0;
  for (; i + 8 <= n; i += 8) {
    __m256i* to = reinterpret_cast<__m256i*>(amax + i);
    _mm256_storeu_si256(to, _mm256_max_epu32(_mm256_loadu_si256(to), magnitude_bits(x + i)));
  }
  if (i < n) reduce_ref.absmax_each(x + i, n - i, amax + i);
}

void minmax_each(const float* x, size_t n, float* min, float* max) {
  size_t i = 0;
  for (; i + 8 <= n; i += 8) {
    const __m256 v = _mm256_loadu_ps(x + i);
    const __m256 nan = _mm256_cmp_ps(v, v, _CMP_UNORD_Q);
    const __m256 low = _mm256_min_ps(v, _mm256_loadu_ps(min + i));
    const __m256 high = _mm256_max_ps(v, _mm256_loadu_ps(max + i));
    _mm256_storeu_ps(min + i, _mm256_blendv_ps(low, v, nan));
    _mm256_storeu_ps(max + i, _mm256_blendv_ps(high, v, nan));
  }
  if (i < n) reduce_ref.minmax_each(x + i, n - i, min + i, max + i);
}

}  // namespace

const ReduceOps reduce_avx2 = {absmax, minmax, absmax_each, minmax_each};

}  // namespace intact
#endif
