// 8 floats at a time; the parts of rows through masks.
#include "kernels/float_steps/loops.h"

#if INTACT_ARCH_X86
#include <immintrin.h>

#include <cstring>

namespace intact {
namespace {

struct Floats8 {
  __m256 v;
  friend Floats8 operator+(Floats8 a, Floats8 b) { return {_mm256_add_ps(a.v, b.v)}; }
  friend Floats8 operator-(Floats8 a, Floats8 b) { return {_mm256_sub_ps(a.v, b.v)}; }
  friend Floats8 operator*(Floats8 a, Floats8 b) { return {_mm256_mul_ps(a.v, b.v)}; }
  friend Floats8 operator/(Floats8 a, Floats8 b) { return {_mm256_div_ps(a.v, b.v)}; }
};

// All ones in the first n of 8 lanes.
inline __m256i first(size_t n) {
  alignas(32) static constexpr int32_t kOnes[16] = {-1, -1, -1, -1, -1, -1, -1, -1};
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(kOnes + 8 - n));
}

struct Avx2 {
  using Floats = Floats8;
  using Ints = __m256i;
  static constexpr size_t kWidth = 8;

  static Floats set(float v) { return {_mm256_set1_ps(v)}; }
  static Ints set_int(int32_t v) { return _mm256_set1_epi32(v); }
  static Floats load(const float* p) { return {_mm256_loadu_ps(p)}; }
  static void store(float* p, Floats a) { _mm256_storeu_ps(p, a.v); }
  static Floats load_part(const float* p, size_t n, float fill) {
    const __m256i mask = first(n);
    return {_mm256_blendv_ps(_mm256_set1_ps(fill), _mm256_maskload_ps(p, mask), _mm256_castsi256_ps(mask))};
  }
  static void store_part(float* p, Floats a, size_t n) { _mm256_maskstore_ps(p, first(n), a.v); }
  static Floats keep(Floats a, size_t n) { return {_mm256_and_ps(a.v, _mm256_castsi256_ps(first(n)))}; }
  // Both return their second operand where one is a NaN.
  static Floats at_least(Floats x, Floats low) { return {_mm256_max_ps(low.v, x.v)}; }
  static Floats at_most(Floats x, Floats high) { return {_mm256_min_ps(high.v, x.v)}; }
  static Floats larger(Floats a, Floats b) { return {_mm256_max_ps(a.v, b.v)}; }
  // Of 16 lanes, as LaneSum says.
  static float tree(const std::array<Floats, 2>& lanes) {
    const __m256 eight = _mm256_add_ps(lanes[0].v, lanes[1].v);
    __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    four = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(four, _mm_movehdup_ps(four)));
  }
  static float largest_of(Floats a) {
    __m128 m = _mm_max_ps(_mm256_castps256_ps128(a.v), _mm256_extractf128_ps(a.v, 1));
    m = _mm_max_ps(m, _mm_movehl_ps(m, m));
    return _mm_cvtss_f32(_mm_max_ss(m, _mm_movehdup_ps(m)));
  }
  static float root(float v) { return _mm_cvtss_f32(_mm_sqrt_ss(_mm_set_ss(v))); }
  static __m256 is_nan(Floats a) { return _mm256_cmp_ps(a.v, a.v, _CMP_UNORD_Q); }
  static __m256 less(Floats a, Floats b) { return _mm256_cmp_ps(a.v, b.v, _CMP_LT_OQ); }
  static Floats select(__m256 where, Floats yes, Floats no) { return {_mm256_blendv_ps(no.v, yes.v, where)}; }
  static Floats abs(Floats a) { return {_mm256_andnot_ps(_mm256_set1_ps(-0.0f), a.v)}; }
  static Floats with_sign(Floats a, Floats sign) {
    return {_mm256_or_ps(abs(a).v, _mm256_and_ps(_mm256_set1_ps(-0.0f), sign.v))};
  }
  static Floats lookup(const float (&table)[8], Ints index) {
    return {_mm256_permutevar8x32_ps(_mm256_loadu_ps(table), index)};
  }
  static Ints bits(Floats a) { return _mm256_castps_si256(a.v); }
  static Ints sub_int(Ints a, Ints b) { return _mm256_sub_epi32(a, b); }
  static Ints halve_int(Ints n) { return _mm256_srai_epi32(n, 1); }
  static Ints add_int(Ints a, Ints b) { return _mm256_add_epi32(a, b); }
  static Ints to_exponent(Ints n) { return _mm256_slli_epi32(n, 23); }
  static Floats floats(Ints bits) { return {_mm256_castsi256_ps(bits)}; }
  static Floats from_bytes(const uint8_t* q, size_t n, int32_t zero) {
    uint64_t bytes = 0;
    std::memcpy(&bytes, q, n == kWidth ? kWidth : n);
    const __m256i code = _mm256_cvtepu8_epi32(_mm_cvtsi64_si128(static_cast<long long>(bytes)));
    return {_mm256_cvtepi32_ps(_mm256_sub_epi32(code, _mm256_set1_epi32(zero)))};
  }
  static void to_bytes(Floats steps, const ByteGrid& g, uint8_t* q, size_t n) {
    const __m256 low = _mm256_set1_ps(static_cast<float>(g.low - g.zero));
    const __m256 high = _mm256_set1_ps(static_cast<float>(g.high - g.zero));
    const __m256 within = _mm256_min_ps(_mm256_max_ps(steps.v, low), high);  // a NaN: low
    const __m256i code = _mm256_add_epi32(_mm256_cvtps_epi32(within), _mm256_set1_epi32(g.zero));
    const __m128i words = _mm_packs_epi32(_mm256_castsi256_si128(code), _mm256_extracti128_si256(code, 1));
    const __m128i bytes = _mm_packus_epi16(words, words);
    if (n == kWidth) {
      _mm_storel_epi64(reinterpret_cast<__m128i*>(q), bytes);
    } else {
      std::memcpy(q, &bytes, n);
    }
  }
};

}  // namespace

const FloatOps float_steps_avx2 = float_steps::ops_of<Avx2>();

}  // namespace intact
#endif
