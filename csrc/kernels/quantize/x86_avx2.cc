// 8 lanes a step, the tail through an 8-element copy of itself.
#include "kernels/quantize/quantize.h"

#if INTACT_ARCH_X86
#include <immintrin.h>

namespace intact {
namespace {

struct Lanes {
  __m256 scale, low, high;
};

inline Lanes lanes_at(const Grid& g, size_t i) {
  if (g.shared) return {_mm256_set1_ps(*g.scale), _mm256_set1_ps(*g.low), _mm256_set1_ps(*g.high)};
  return {_mm256_loadu_ps(g.scale + i), _mm256_loadu_ps(g.low + i), _mm256_loadu_ps(g.high + i)};
}

// 8 floats to 8 bytes. max returns its second operand for NaN: the low end, hence qmin.
inline void quantize8(const float* x, const Lanes& p, __m256i qmin, uint8_t* q) {
  __m256 v = _mm256_div_ps(_mm256_loadu_ps(x), p.scale);
  v = _mm256_min_ps(_mm256_max_ps(v, p.low), p.high);
  v = _mm256_round_ps(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  const __m256i code = _mm256_add_epi32(_mm256_cvttps_epi32(_mm256_sub_ps(v, p.low)), qmin);
  // Codes of either sign keep their low byte; masking it makes the two unsigned packs exact.
  const __m256i byte = _mm256_and_si256(code, _mm256_set1_epi32(0xff));
  const __m128i s16 = _mm_packs_epi32(_mm256_castsi256_si128(byte), _mm256_extracti128_si256(byte, 1));
  _mm_storel_epi64(reinterpret_cast<__m128i*>(q), _mm_packus_epi16(s16, s16));
}

inline void dequantize8(const uint8_t* q, const Lanes& p, Codes codes, float* y) {
  const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(q));
  const __m256i code = codes.is_signed ? _mm256_cvtepi8_epi32(bytes) : _mm256_cvtepu8_epi32(bytes);
  const __m256i above = _mm256_sub_epi32(code, _mm256_set1_epi32(codes.qmin));
  const __m256 steps = _mm256_add_ps(_mm256_cvtepi32_ps(above), p.low);
  _mm256_storeu_ps(y, _mm256_mul_ps(steps, p.scale));
}

// The parameters of the last n < 8 elements in arrays of 8; a shared grid is returned as it is.
struct TailGrid {
  float scale[8], low[8], high[8];
};

inline Grid tail_grid(const Grid& g, size_t i, size_t n, TailGrid& copy) {
  if (g.shared) return g;
  for (size_t k = 0; k < 8; ++k) {
    const size_t from = i + (k < n ? k : 0);
    copy.scale[k] = g.scale[from];
    copy.low[k] = g.low[from];
    copy.high[k] = g.high[from];
  }
  return {copy.scale, copy.low, copy.high, false};
}

void quantize(const float* x, size_t n, const Grid& grid, Codes codes, uint8_t* q) {
  const __m256i qmin = _mm256_set1_epi32(codes.qmin);
  size_t i = 0;
  for (; i + 8 <= n; i += 8) quantize8(x + i, lanes_at(grid, i), qmin, q + i);
  if (i == n) return;
  float from[8] = {0};
  uint8_t to[8];
  TailGrid copy;
  for (size_t k = 0; k < n - i; ++k) from[k] = x[i + k];
  quantize8(from, lanes_at(tail_grid(grid, i, n - i, copy), 0), qmin, to);
  for (size_t k = 0; k < n - i; ++k) q[i + k] = to[k];
}

void dequantize(const uint8_t* q, size_t n, const Grid& grid, Codes codes, float* y) {
  size_t i = 0;
  for (; i + 8 <= n; i += 8) dequantize8(q + i, lanes_at(grid, i), codes, y + i);
  if (i == n) return;
  uint8_t from[8] = {0};
  float to[8];
  TailGrid copy;
  for (size_t k = 0; k < n - i; ++k) from[k] = q[i + k];
  dequantize8(from, lanes_at(tail_grid(grid, i, n - i, copy), 0), codes, to);
  for (size_t k = 0; k < n - i; ++k) y[i + k] = to[k];
}

}  // namespace

const QuantizeOps quantize_avx2 = {quantize, dequantize};

}  // namespace intact
#endif
