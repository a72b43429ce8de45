// AVX-512 (F, BW, DQ, VL). Included by files that are compiled for it only.
#pragma once

#include <array>

#include "base/vector/avx2.h"

namespace intact {
namespace {

struct Avx512 {
  INTACT_X86_INTS(__m512i, _mm512, si512)
  INTACT_X86_FLOATS(__m512, _mm512)
  INTACT_X86_CASTS(_mm512, si512)
  using Mask = __mmask16;
  using Half = Avx2;
  using Narrow = Sse;

  static INTACT_INLINE __mmask16 first(size_t n) { return static_cast<__mmask16>((1u << n) - 1); }
  static INTACT_INLINE __mmask64 first_bytes(size_t n) { return (__mmask64{1} << n) - 1; }
  static INTACT_INLINE Floats load_part(const float* p, size_t n, float fill) {
    return {_mm512_mask_loadu_ps(_mm512_set1_ps(fill), first(n), p)};
  }
  static INTACT_INLINE void store_part(float* p, Floats a, size_t n) {
    _mm512_mask_storeu_ps(p, first(n), a.v);
  }
  static INTACT_INLINE Floats keep(Floats a, size_t n) { return {_mm512_maskz_mov_ps(first(n), a.v)}; }
  static INTACT_INLINE Bytes load_bytes_part(const uint8_t* p, size_t n) {
    return _mm512_maskz_loadu_epi8(first_bytes(n), p);
  }
  static INTACT_INLINE void store_bytes_part(uint8_t* p, Bytes a, size_t n) {
    _mm512_mask_storeu_epi8(p, first_bytes(n), a);
  }
  static INTACT_INLINE Ints load_u8(const uint8_t* p) {
    return _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  }
  static INTACT_INLINE Ints load_u8_part(const uint8_t* p, size_t n) {
    return _mm512_cvtepu8_epi32(_mm_maskz_loadu_epi8(first(n), p));
  }
  static INTACT_INLINE Ints load_s8(const uint8_t* p) {
    return _mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  }
  static INTACT_INLINE Ints load_s8_part(const uint8_t* p, size_t n) {
    return _mm512_cvtepi8_epi32(_mm_maskz_loadu_epi8(first(n), p));
  }
  static INTACT_INLINE void store_u8(uint8_t* p, Ints a) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtepi32_epi8(a));
  }
  static INTACT_INLINE void store_u8_part(uint8_t* p, Ints a, size_t n) {
    _mm512_mask_cvtepi32_storeu_epi8(p, first(n), a);
  }
  static INTACT_INLINE Words load_words(const uint8_t* p) {
    return _mm512_cvtepu8_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
  }
  static INTACT_INLINE Words load_words(const int8_t* p) {
    return _mm512_cvtepi8_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
  }
  static INTACT_INLINE void store_words(int16_t* p, Words a) { store_int(p, a); }
  static INTACT_INLINE Ints load_u16(const uint16_t* p) {
    return _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
  }
  static INTACT_INLINE void store_u16(uint16_t* p, Ints a) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtepi32_epi16(a));
  }
  static INTACT_INLINE Floats from_f16(const uint16_t* p) {
    return {_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)))};
  }
  static INTACT_INLINE void to_f16(uint16_t* p, Floats a) {
    const __m256i halves = _mm512_cvtps_ph(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), halves);
  }
  static INTACT_INLINE Floats from_f64(const double* p) {
    const __m256 low = _mm512_cvtpd_ps(_mm512_loadu_pd(p)), high = _mm512_cvtpd_ps(_mm512_loadu_pd(p + 8));
    return {_mm512_insertf32x8(_mm512_castps256_ps512(low), high, 1)};
  }
  static INTACT_INLINE void to_f64(double* p, Floats a) {
    _mm512_storeu_pd(p, _mm512_cvtps_pd(_mm512_castps512_ps256(a.v)));
    _mm512_storeu_pd(p + 8, _mm512_cvtps_pd(_mm512_extractf32x8_ps(a.v, 1)));
  }

  static INTACT_INLINE Floats round(Floats a) {
    return {_mm512_roundscale_ps(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)};
  }
  static INTACT_INLINE Mask is_nan(Floats a) { return _mm512_cmp_ps_mask(a.v, a.v, _CMP_UNORD_Q); }
  static INTACT_INLINE Mask less(Floats a, Floats b) { return _mm512_cmp_ps_mask(a.v, b.v, _CMP_LT_OQ); }
  static INTACT_INLINE Mask less_equal(Floats a, Floats b) {
    return _mm512_cmp_ps_mask(a.v, b.v, _CMP_LE_OQ);
  }
  static INTACT_INLINE Mask both(Mask a, Mask b) { return a & b; }
  static INTACT_INLINE Mask either(Mask a, Mask b) { return a | b; }
  static INTACT_INLINE bool any(Mask a) { return a != 0; }
  static INTACT_INLINE bool all(Mask a) { return a == 0xffff; }
  static INTACT_INLINE Floats only(Mask m, Floats a) { return {_mm512_maskz_mov_ps(m, a.v)}; }
  static INTACT_INLINE Floats select(Mask m, Floats yes, Floats no) {
    return {_mm512_mask_blend_ps(m, no.v, yes.v)};
  }
  static INTACT_INLINE Ints select(Mask m, Ints yes, Ints no) { return _mm512_mask_blend_epi32(m, no, yes); }
  static INTACT_INLINE Floats lookup(const float (&table)[8], Ints index) {
    return {_mm512_permutexvar_ps(index, _mm512_broadcast_f32x8(_mm256_loadu_ps(table)))};
  }

  static INTACT_INLINE float smallest_of(Floats a) { return _mm512_reduce_min_ps(a.v); }
  static INTACT_INLINE float largest_of(Floats a) { return _mm512_reduce_max_ps(a.v); }
  static INTACT_INLINE int32_t largest_int_of(Ints a) { return _mm512_reduce_max_epi32(a); }
  static INTACT_INLINE float tree(const std::array<Floats, 1>& lanes) {
    const __m256 eight =
        _mm256_add_ps(_mm512_castps512_ps256(lanes[0].v), _mm512_extractf32x8_ps(lanes[0].v, 1));
    __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    four = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(four, _mm_movehdup_ps(four)));
  }
};

}  // namespace
}  // namespace intact
