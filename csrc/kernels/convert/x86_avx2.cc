// 8 lanes a step (4 for double); the tail is the reference.
#include "kernels/convert/convert.h"

#if INTACT_ARCH_X86
#include <immintrin.h>

namespace intact {
namespace {

inline __m128i load8(const uint16_t* x) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(x)); }

inline void store8(uint16_t* y, __m128i v) { _mm_storeu_si128(reinterpret_cast<__m128i*>(y), v); }

void from_f16(const uint16_t* x, size_t n, float* y) {
  size_t i = 0;
  for (; i + 8 <= n; i += 8) _mm256_storeu_ps(y + i, _mm256_cvtph_ps(load8(x + i)));
  convert_ref.from_f16(x + i, n - i, y + i);
}

void from_bf16(const uint16_t* x, size_t n, float* y) {
  size_t i = 0;
  for (; i + 8 <= n; i += 8) {
    const __m256i bits = _mm256_slli_epi32(_mm256_cvtepu16_epi32(load8(x + i)), 16);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(y + i), bits);
  }
  convert_ref.from_bf16(x + i, n - i, y + i);
}

void from_f64(const double* x, size_t n, float* y) {
  size_t i = 0;
  for (; i + 4 <= n; i += 4) _mm_storeu_ps(y + i, _mm256_cvtpd_ps(_mm256_loadu_pd(x + i)));
  convert_ref.from_f64(x + i, n - i, y + i);
}

void to_f16(const float* x, size_t n, uint16_t* y) {
  size_t i = 0;
  for (; i + 8 <= n; i += 8) {
    store8(y + i, _mm256_cvtps_ph(_mm256_loadu_ps(x + i), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  }
  convert_ref.to_f16(x + i, n - i, y + i);
}

void to_bf16(const float* x, size_t n, uint16_t* y) {
  size_t i = 0;
  for (; i + 8 <= n; i += 8) {
    const __m256 v = _mm256_loadu_ps(x + i);
    const __m256i bits = _mm256_castps_si256(v);
    const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    const __m256i up = _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff));
    const __m256i rounded = _mm256_add_epi32(bits, up);
    const __m256i quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x400000));
    const __m256 nan = _mm256_cmp_ps(v, v, _CMP_UNORD_Q);
    const __m256i kept = _mm256_blendv_epi8(rounded, quiet, _mm256_castps_si256(nan));
    const __m256i top = _mm256_srli_epi32(kept, 16);
    store8(y + i, _mm_packus_epi32(_mm256_castsi256_si128(top), _mm256_extracti128_si256(top, 1)));
  }
  convert_ref.to_bf16(x + i, n - i, y + i);
}

void to_f64(const float* x, size_t n, double* y) {
  size_t i = 0;
  for (; i + 4 <= n; i += 4) _mm256_storeu_pd(y + i, _mm256_cvtps_pd(_mm_loadu_ps(x + i)));
  convert_ref.to_f64(x + i, n - i, y + i);
}

}  // namespace

const ConvertOps convert_avx2 = {from_f16, from_bf16, from_f64, to_f16, to_bf16, to_f64};

}  // namespace intact
#endif
