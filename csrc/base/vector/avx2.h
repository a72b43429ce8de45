// AVX2 and F16C. Included by files that are compiled for them only.
#pragma once

#include <array>

#include "base/vector/x86.h"

namespace intact {
namespace {

struct Avx2 {
  INTACT_X86_INTS(__m256i, _mm256, si256)
  INTACT_X86_FLOATS(__m256, _mm256)
  INTACT_X86_CASTS(_mm256, si256)
  using Mask = __m256;
  using Half = Sse;
  using Narrow = Sse;

  // All ones in the first n of 8 lanes.
  static INTACT_INLINE __m256i first(size_t n) {
    alignas(32) static constexpr int32_t kOnes[16] = {-1, -1, -1, -1, -1, -1, -1, -1};
    return load_int(kOnes + 8 - n);
  }
  static INTACT_INLINE Floats load_part(const float* p, size_t n, float fill) {
    const __m256i mask = first(n);
    return {_mm256_blendv_ps(_mm256_set1_ps(fill), _mm256_maskload_ps(p, mask), _mm256_castsi256_ps(mask))};
  }
  static INTACT_INLINE void store_part(float* p, Floats a, size_t n) {
    _mm256_maskstore_ps(p, first(n), a.v);
  }
  static INTACT_INLINE Floats keep(Floats a, size_t n) {
    return {_mm256_and_ps(a.v, _mm256_castsi256_ps(first(n)))};
  }
  static INTACT_INLINE Bytes load_bytes_part(const uint8_t* p, size_t n) {
    alignas(32) uint8_t bytes[32] = {};
    std::memcpy(bytes, p, n);
    return load_int(bytes);
  }
  static INTACT_INLINE void store_bytes_part(uint8_t* p, Bytes a, size_t n) {
    alignas(32) uint8_t bytes[32];
    store_int(bytes, a);
    std::memcpy(p, bytes, n);
  }

  static INTACT_INLINE __m128i eight(const void* p) {
    return _mm_loadl_epi64(static_cast<const __m128i*>(p));
  }
  static INTACT_INLINE __m128i eight(const uint8_t* p, size_t n) {
    uint64_t bytes = 0;
    std::memcpy(&bytes, p, n);
    return _mm_cvtsi64_si128(static_cast<long long>(bytes));
  }
  static INTACT_INLINE Ints load_u8(const uint8_t* p) { return _mm256_cvtepu8_epi32(eight(p)); }
  static INTACT_INLINE Ints load_u8_part(const uint8_t* p, size_t n) {
    return _mm256_cvtepu8_epi32(eight(p, n));
  }
  static INTACT_INLINE Ints load_s8(const uint8_t* p) { return _mm256_cvtepi8_epi32(eight(p)); }
  static INTACT_INLINE Ints load_s8_part(const uint8_t* p, size_t n) {
    return _mm256_cvtepi8_epi32(eight(p, n));
  }
  static INTACT_INLINE __m128i low_bytes(Ints a) {
    const __m256i fours = _mm256_shuffle_epi8(a, _mm256_set1_epi64x(0x0c080400));
    return _mm_unpacklo_epi32(_mm256_castsi256_si128(fours), _mm256_extracti128_si256(fours, 1));
  }
  static INTACT_INLINE void store_u8(uint8_t* p, Ints a) {
    _mm_storel_epi64(reinterpret_cast<__m128i*>(p), low_bytes(a));
  }
  static INTACT_INLINE void store_u8_part(uint8_t* p, Ints a, size_t n) {
    const __m128i bytes = low_bytes(a);
    std::memcpy(p, &bytes, n);
  }
  static INTACT_INLINE Words load_words(const uint8_t* p) {
    return _mm256_cvtepu8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  }
  static INTACT_INLINE Words load_words(const int8_t* p) {
    return _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  }
  static INTACT_INLINE void store_words(int16_t* p, Words a) { store_int(p, a); }
  static INTACT_INLINE Ints load_u16(const uint16_t* p) {
    return _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  }
  static INTACT_INLINE void store_u16(uint16_t* p, Ints a) {
    const __m128i words = _mm_packus_epi32(_mm256_castsi256_si128(a), _mm256_extracti128_si256(a, 1));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), words);
  }
  static INTACT_INLINE Floats from_f16(const uint16_t* p) {
    return {_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)))};
  }
  static INTACT_INLINE void to_f16(uint16_t* p, Floats a) {
    const __m128i halves = _mm256_cvtps_ph(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), halves);
  }
  static INTACT_INLINE Floats from_f64(const double* p) {
    return {_mm256_set_m128(_mm256_cvtpd_ps(_mm256_loadu_pd(p + 4)), _mm256_cvtpd_ps(_mm256_loadu_pd(p)))};
  }
  static INTACT_INLINE void to_f64(double* p, Floats a) {
    _mm256_storeu_pd(p, _mm256_cvtps_pd(_mm256_castps256_ps128(a.v)));
    _mm256_storeu_pd(p + 4, _mm256_cvtps_pd(_mm256_extractf128_ps(a.v, 1)));
  }

  static INTACT_INLINE Floats round(Floats a) {
    return {_mm256_round_ps(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)};
  }
  static INTACT_INLINE Mask is_nan(Floats a) { return _mm256_cmp_ps(a.v, a.v, _CMP_UNORD_Q); }
  static INTACT_INLINE Mask less(Floats a, Floats b) { return _mm256_cmp_ps(a.v, b.v, _CMP_LT_OQ); }
  static INTACT_INLINE Mask less_equal(Floats a, Floats b) { return _mm256_cmp_ps(a.v, b.v, _CMP_LE_OQ); }
  static INTACT_INLINE Mask both(Mask a, Mask b) { return _mm256_and_ps(a, b); }
  static INTACT_INLINE Mask either(Mask a, Mask b) { return _mm256_or_ps(a, b); }
  static INTACT_INLINE bool any(Mask a) { return _mm256_movemask_ps(a) != 0; }
  static INTACT_INLINE bool all(Mask a) { return _mm256_movemask_ps(a) == 0xff; }
  static INTACT_INLINE Floats only(Mask m, Floats a) { return {_mm256_and_ps(m, a.v)}; }
  static INTACT_INLINE Floats select(Mask m, Floats yes, Floats no) {
    return {_mm256_blendv_ps(no.v, yes.v, m)};
  }
  static INTACT_INLINE Ints select(Mask m, Ints yes, Ints no) {
    return _mm256_blendv_epi8(no, yes, _mm256_castps_si256(m));
  }
  static INTACT_INLINE Floats lookup(const float (&table)[8], Ints index) {
    return {_mm256_permutevar8x32_ps(_mm256_loadu_ps(table), index)};
  }

  static INTACT_INLINE float smallest_of(Floats a) {
    __m128 m = _mm_min_ps(_mm256_castps256_ps128(a.v), _mm256_extractf128_ps(a.v, 1));
    m = _mm_min_ps(m, _mm_movehl_ps(m, m));
    return _mm_cvtss_f32(_mm_min_ss(m, _mm_movehdup_ps(m)));
  }
  static INTACT_INLINE float largest_of(Floats a) {
    __m128 m = _mm_max_ps(_mm256_castps256_ps128(a.v), _mm256_extractf128_ps(a.v, 1));
    m = _mm_max_ps(m, _mm_movehl_ps(m, m));
    return _mm_cvtss_f32(_mm_max_ss(m, _mm_movehdup_ps(m)));
  }
  static INTACT_INLINE int32_t largest_int_of(Ints a) {
    __m128i m = _mm_max_epi32(_mm256_castsi256_si128(a), _mm256_extracti128_si256(a, 1));
    m = _mm_max_epi32(m, _mm_shuffle_epi32(m, 0x4e));
    return _mm_cvtsi128_si32(_mm_max_epi32(m, _mm_shuffle_epi32(m, 0xb1)));
  }
  static INTACT_INLINE float tree(const std::array<Floats, 2>& lanes) {
    const __m256 eight = _mm256_add_ps(lanes[0].v, lanes[1].v);
    __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    four = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(four, _mm_movehdup_ps(four)));
  }
};

}  // namespace
}  // namespace intact
