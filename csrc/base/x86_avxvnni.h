// The instructions of AVX-VNNI. Included by x86_avxvnni.cc files only.
#pragma once

#include <immintrin.h>

namespace intact {

// Fours of unsigned bytes by signed ones, and their sums, added. AVX-512's form of the instruction gives the
// same bits: tests run the kernels of gemm and matmul through it.
static inline __m256i dot(__m256i sums, __m256i bytes, __m256i weights) {
#if defined(__AVX512VNNI__) && defined(__AVX512VL__)
  return _mm256_dpbusd_epi32(sums, bytes, weights);
#else
  return _mm256_dpbusd_avx_epi32(sums, bytes, weights);
#endif
}

// Pairs of signed words, and their sums, added.
static inline __m256i dot_words(__m256i sums, __m256i a, __m256i b) {
  return _mm256_dpwssd_avx_epi32(sums, a, b);
}

}  // namespace intact
