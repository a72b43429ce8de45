// 16 floats at a time; the parts of rows through masks.
#include "kernels/reals/loops.h"

#if INTACT_ARCH_X86
#include <immintrin.h>

namespace intact {
namespace {

struct Floats16 {
  __m512 v;
  friend Floats16 operator+(Floats16 a, Floats16 b) { return {_mm512_add_ps(a.v, b.v)}; }
  friend Floats16 operator-(Floats16 a, Floats16 b) { return {_mm512_sub_ps(a.v, b.v)}; }
  friend Floats16 operator*(Floats16 a, Floats16 b) { return {_mm512_mul_ps(a.v, b.v)}; }
  friend Floats16 operator/(Floats16 a, Floats16 b) { return {_mm512_div_ps(a.v, b.v)}; }
};

inline __mmask16 first(size_t n) { return static_cast<__mmask16>((1u << n) - 1); }

struct Avx512 {
  using Floats = Floats16;
  using Ints = __m512i;
  static constexpr size_t kWidth = 16;

  static Floats set(float v) { return {_mm512_set1_ps(v)}; }
  static Ints set_int(int32_t v) { return _mm512_set1_epi32(v); }
  static Floats load(const float* p) { return {_mm512_loadu_ps(p)}; }
  static void store(float* p, Floats a) { _mm512_storeu_ps(p, a.v); }
  static Floats load_part(const float* p, size_t n, float fill) {
    return {_mm512_mask_loadu_ps(_mm512_set1_ps(fill), first(n), p)};
  }
  static void store_part(float* p, Floats a, size_t n) { _mm512_mask_storeu_ps(p, first(n), a.v); }
  static Floats keep(Floats a, size_t n) { return {_mm512_maskz_mov_ps(first(n), a.v)}; }
  // Both return their second operand where one is a NaN.
  static Floats at_least(Floats x, Floats low) { return {_mm512_max_ps(low.v, x.v)}; }
  static Floats at_most(Floats x, Floats high) { return {_mm512_min_ps(high.v, x.v)}; }
  static Floats larger(Floats a, Floats b) { return {_mm512_max_ps(a.v, b.v)}; }
  // Of 16 lanes, as LaneSum says.
  static float tree(const std::array<Floats, 1>& lanes) {
    const __m256 eight =
        _mm256_add_ps(_mm512_castps512_ps256(lanes[0].v), _mm512_extractf32x8_ps(lanes[0].v, 1));
    __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    four = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(four, _mm_movehdup_ps(four)));
  }
  static float largest_of(Floats a) { return _mm512_reduce_max_ps(a.v); }
  static float root(float v) { return _mm_cvtss_f32(_mm_sqrt_ss(_mm_set_ss(v))); }
  static __mmask16 less(Floats a, Floats b) { return _mm512_cmp_ps_mask(a.v, b.v, _CMP_LT_OQ); }
  static Floats select(__mmask16 where, Floats yes, Floats no) {
    return {_mm512_mask_blend_ps(where, no.v, yes.v)};
  }
  static Floats abs(Floats a) { return {_mm512_andnot_ps(_mm512_set1_ps(-0.0f), a.v)}; }
  static Floats with_sign(Floats a, Floats sign) {
    return {_mm512_or_ps(abs(a).v, _mm512_and_ps(_mm512_set1_ps(-0.0f), sign.v))};
  }
  static Floats lookup(const float (&table)[8], Ints index) {
    return {_mm512_permutexvar_ps(index, _mm512_broadcast_f32x8(_mm256_loadu_ps(table)))};
  }
  static Ints bits(Floats a) { return _mm512_castps_si512(a.v); }
  static Ints sub_int(Ints a, Ints b) { return _mm512_sub_epi32(a, b); }
  static Ints halve_int(Ints n) { return _mm512_srai_epi32(n, 1); }
  static Ints add_int(Ints a, Ints b) { return _mm512_add_epi32(a, b); }
  static Ints to_exponent(Ints n) { return _mm512_slli_epi32(n, 23); }
  static Floats floats(Ints bits) { return {_mm512_castsi512_ps(bits)}; }
  static Floats from_bytes(const uint8_t* q, size_t n, int32_t zero) {
    const __m128i bytes = _mm_maskz_loadu_epi8(first(n), q);
    return {_mm512_cvtepi32_ps(_mm512_sub_epi32(_mm512_cvtepu8_epi32(bytes), _mm512_set1_epi32(zero)))};
  }
  static void to_bytes(Floats steps, const ByteGrid& g, uint8_t* q, size_t n) {
    const __m512 low = _mm512_set1_ps(static_cast<float>(g.low - g.zero));
    const __m512 high = _mm512_set1_ps(static_cast<float>(g.high - g.zero));
    const __m512 within = _mm512_min_ps(_mm512_max_ps(steps.v, low), high);  // a NaN: low
    const __m512i code = _mm512_add_epi32(_mm512_cvtps_epi32(within), _mm512_set1_epi32(g.zero));
    _mm512_mask_cvtepi32_storeu_epi8(q, first(n), code);
  }
};

}  // namespace

const RealsOps reals_avx512 = reals::ops_of<Avx512>();

}  // namespace intact
#endif
