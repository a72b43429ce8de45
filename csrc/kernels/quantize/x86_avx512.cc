// 16 lanes a step, the tail masked. Where one scale serves all, x * (1 / scale) decides, except close to a
// tie: there x is divided. The product is within 2^-22 of the quotient, relatively; below kMostSteps that is
// less than kDoubt, so the two round to the same integer unless a tie lies closer than kDoubt.
#include "kernels/quantize/quantize.h"

#if INTACT_ARCH_X86
#include <immintrin.h>

#include <cmath>

namespace intact {
namespace {

constexpr float kMostSteps = 1024;
constexpr float kDoubt = 1.0f / 1024;

struct Lanes {
  __m512 scale, low, high;
};

inline Lanes lanes_at(const Grid& g, size_t i, __mmask16 m) {
  if (g.shared) return {_mm512_set1_ps(*g.scale), _mm512_set1_ps(*g.low), _mm512_set1_ps(*g.high)};
  const __m512 one = _mm512_set1_ps(1);
  return {_mm512_mask_loadu_ps(one, m, g.scale + i), _mm512_maskz_loadu_ps(m, g.low + i),
          _mm512_maskz_loadu_ps(m, g.high + i)};
}

// max returns its second operand for NaN: the low end, hence qmin.
inline __m512 bounded(__m512 steps, const Lanes& p) {
  return _mm512_min_ps(_mm512_max_ps(steps, p.low), p.high);
}

inline void store(__m512i code, __mmask16 m, uint8_t* q) { _mm512_mask_cvtepi32_storeu_epi8(q, m, code); }

// Bounds are whole numbers: steps within them round to integers within them.
void divide(const float* x, size_t n, const Grid& grid, Codes codes, uint8_t* q) {
  const __m512i qmin = _mm512_set1_epi32(codes.qmin);
  for (size_t i = 0; i < n; i += 16) {
    const __mmask16 m = n - i >= 16 ? 0xffff : static_cast<__mmask16>((1u << (n - i)) - 1);
    const Lanes p = lanes_at(grid, i, m);
    const __m512 v = bounded(_mm512_div_ps(_mm512_maskz_loadu_ps(m, x + i), p.scale), p);
    const __m512i above = _mm512_sub_epi32(_mm512_cvtps_epi32(v), _mm512_cvtps_epi32(p.low));
    store(_mm512_add_epi32(above, qmin), m, q + i);
  }
}

inline __m512i rounded(__m512 x, const Lanes& p, __m512 inverse) {
  const __m512 v = bounded(_mm512_mul_ps(x, inverse), p);
  const __m512i code = _mm512_cvtps_epi32(v);
  const __m512 rest = _mm512_abs_ps(_mm512_sub_ps(v, _mm512_cvtepi32_ps(code)));
  if (_mm512_cmp_ps_mask(rest, _mm512_set1_ps(0.5f - kDoubt), _CMP_GT_OQ) == 0) [[likely]]
    return code;
  return _mm512_cvtps_epi32(bounded(_mm512_div_ps(x, p.scale), p));
}

void quantize(const float* x, size_t n, const Grid& grid, Codes codes, uint8_t* q) {
  const bool plain = grid.shared && *grid.scale >= 0x1p-100f && *grid.scale <= 0x1p100f &&
                     *grid.low >= -kMostSteps && *grid.high <= kMostSteps;
  if (!plain) return divide(x, n, grid, codes, q);
  const Lanes p = lanes_at(grid, 0, 0xffff);
  const __m512 inverse = _mm512_set1_ps(1 / *grid.scale);
  const __m512i shift = _mm512_set1_epi32(codes.qmin - static_cast<int32_t>(*grid.low));
  size_t i = 0;
  for (; i + 16 <= n; i += 16) {
    const __m512i code = rounded(_mm512_loadu_ps(x + i), p, inverse);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(q + i), _mm512_cvtepi32_epi8(_mm512_add_epi32(code, shift)));
  }
  if (i == n) return;
  const auto m = static_cast<__mmask16>((1u << (n - i)) - 1);
  const __m512i code = rounded(_mm512_maskz_loadu_ps(m, x + i), p, inverse);
  store(_mm512_add_epi32(code, shift), m, q + i);
}

void dequantize(const uint8_t* q, size_t n, const Grid& grid, Codes codes, float* y) {
  const __m512i qmin = _mm512_set1_epi32(codes.qmin);
  for (size_t i = 0; i < n; i += 16) {
    const __mmask16 m = n - i >= 16 ? 0xffff : static_cast<__mmask16>((1u << (n - i)) - 1);
    const __m128i bytes = _mm_maskz_loadu_epi8(m, q + i);
    const __m512i code = codes.is_signed ? _mm512_cvtepi8_epi32(bytes) : _mm512_cvtepu8_epi32(bytes);
    const size_t at = grid.shared ? 0 : i;
    const __m512 low = grid.shared ? _mm512_set1_ps(*grid.low) : _mm512_maskz_loadu_ps(m, grid.low + at);
    const __m512 scale =
        grid.shared ? _mm512_set1_ps(*grid.scale) : _mm512_maskz_loadu_ps(m, grid.scale + at);
    const __m512 steps = _mm512_add_ps(_mm512_cvtepi32_ps(_mm512_sub_epi32(code, qmin)), low);
    _mm512_mask_storeu_ps(y + i, m, _mm512_mul_ps(steps, scale));
  }
}

}  // namespace

const QuantizeOps quantize_avx512 = {quantize, dequantize};

}  // namespace intact
#endif
