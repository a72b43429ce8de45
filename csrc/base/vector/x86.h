// The operations that all widths of x86's registers share: P is the prefix of the intrinsics, S the suffix
// of whole registers. Beyond the layer there are pair_words and pair_bytes, products and the sums of
// neighbours. Included by avx2.h and avx512.h.
#pragma once

#include <immintrin.h>

#include <cstring>

#include "base/vector/vector.h"

#define INTACT_X86_FLOATS(Float, P)                                                                       \
  struct Floats {                                                                                         \
    Float v;                                                                                              \
    friend INTACT_INLINE Floats operator+(Floats a, Floats b) { return {P##_add_ps(a.v, b.v)}; }          \
    friend INTACT_INLINE Floats operator-(Floats a, Floats b) { return {P##_sub_ps(a.v, b.v)}; }          \
    friend INTACT_INLINE Floats operator*(Floats a, Floats b) { return {P##_mul_ps(a.v, b.v)}; }          \
    friend INTACT_INLINE Floats operator/(Floats a, Floats b) { return {P##_div_ps(a.v, b.v)}; }          \
  };                                                                                                      \
  static INTACT_INLINE Floats set(float v) { return {P##_set1_ps(v)}; }                                   \
  static INTACT_INLINE Floats load(const float* p) { return {P##_loadu_ps(p)}; }                          \
  static INTACT_INLINE void store(float* p, Floats a) { P##_storeu_ps(p, a.v); }                          \
  static INTACT_INLINE Floats fma(Floats a, Floats b, Floats c) { return {P##_fmadd_ps(a.v, b.v, c.v)}; } \
  static INTACT_INLINE Floats larger(Floats a, Floats b) { return {P##_max_ps(a.v, b.v)}; }               \
  static INTACT_INLINE Floats smaller(Floats a, Floats b) { return {P##_min_ps(a.v, b.v)}; }              \
  static INTACT_INLINE Floats sqrt(Floats a) { return {P##_sqrt_ps(a.v)}; }                               \
  static INTACT_INLINE Floats abs(Floats a) { return {P##_andnot_ps(P##_set1_ps(-0.0f), a.v)}; }          \
  static INTACT_INLINE Floats with_sign(Floats a, Floats sign) {                                          \
    return {P##_or_ps(abs(a).v, P##_and_ps(P##_set1_ps(-0.0f), sign.v))};                                 \
  }                                                                                                       \
  static INTACT_INLINE float root(float v) { return _mm_cvtss_f32(_mm_sqrt_ss(_mm_set_ss(v))); }          \
  static INTACT_INLINE Ints to_int(Floats a) { return P##_cvtps_epi32(a.v); }                             \
  static INTACT_INLINE Ints truncate(Floats a) { return P##_cvttps_epi32(a.v); }                          \
  static INTACT_INLINE Floats to_float(Ints a) { return {P##_cvtepi32_ps(a)}; }

#define INTACT_X86_INTS(Integers, P, S)                                                                  \
  using Ints = Integers;                                                                                 \
  using Words = Integers;                                                                                \
  using Bytes = Integers;                                                                                \
  static constexpr size_t kBytes = sizeof(Integers), kWidth = kBytes / 4;                                \
  static INTACT_INLINE Ints set_int(int32_t v) { return P##_set1_epi32(v); }                             \
  static INTACT_INLINE Ints load_int(const void* p) {                                                    \
    return P##_loadu_##S(static_cast<const Integers*>(p));                                               \
  }                                                                                                      \
  static INTACT_INLINE void store_int(void* p, Ints a) { P##_storeu_##S(static_cast<Integers*>(p), a); } \
  static INTACT_INLINE Bytes load_bytes(const void* p) { return load_int(p); }                           \
  static INTACT_INLINE void store_bytes(void* p, Bytes a) { store_int(p, a); }                           \
  static INTACT_INLINE Ints add_int(Ints a, Ints b) { return P##_add_epi32(a, b); }                      \
  static INTACT_INLINE Ints sub_int(Ints a, Ints b) { return P##_sub_epi32(a, b); }                      \
  static INTACT_INLINE Ints and_int(Ints a, Ints b) { return P##_and_##S(a, b); }                        \
  static INTACT_INLINE Ints or_int(Ints a, Ints b) { return P##_or_##S(a, b); }                          \
  static INTACT_INLINE Ints xor_int(Ints a, Ints b) { return P##_xor_##S(a, b); }                        \
  static INTACT_INLINE Ints larger_int(Ints a, Ints b) { return P##_max_epi32(a, b); }                   \
  template <int kBits>                                                                                   \
  static INTACT_INLINE Ints shift_left(Ints a) {                                                         \
    return P##_slli_epi32(a, kBits);                                                                     \
  }                                                                                                      \
  template <int kBits>                                                                                   \
  static INTACT_INLINE Ints shift_right(Ints a) {                                                        \
    return P##_srli_epi32(a, kBits);                                                                     \
  }                                                                                                      \
  static INTACT_INLINE Words set_words(int v) { return P##_set1_epi16(static_cast<int16_t>(v)); }        \
  static INTACT_INLINE Bytes set_bytes(int v) { return P##_set1_epi8(static_cast<char>(v)); }            \
  static INTACT_INLINE Ints multiply_int(Ints a, Ints b) { return P##_mullo_epi32(a, b); }               \
  template <int kBits>                                                                                   \
  static INTACT_INLINE Ints shift_down(Ints a) {                                                         \
    return P##_srai_epi32(a, kBits);                                                                     \
  }                                                                                                      \
  template <int kBits>                                                                                   \
  static INTACT_INLINE Words shift_words(Words a) {                                                      \
    return P##_slli_epi16(a, kBits);                                                                     \
  }                                                                                                      \
  static INTACT_INLINE Words sub_words(Words a, Words b) { return P##_sub_epi16(a, b); }                 \
  static INTACT_INLINE Ints pair_words(Words a, Words b) { return P##_madd_epi16(a, b); }                \
  static INTACT_INLINE Words pair_bytes(Bytes a, Bytes b) { return P##_maddubs_epi16(a, b); }            \
  static INTACT_INLINE Words add_words(Words a, Words b) { return P##_add_epi16(a, b); }                 \
  static INTACT_INLINE Words add_words_saturated(Words a, Words b) { return P##_adds_epi16(a, b); }      \
  static INTACT_INLINE Bytes larger_bytes(Bytes a, Bytes b) { return P##_max_epu8(a, b); }               \
  static INTACT_INLINE Bytes smaller_bytes(Bytes a, Bytes b) { return P##_min_epu8(a, b); }              \
  static INTACT_INLINE Bytes low8(Bytes a, Bytes b) { return P##_unpacklo_epi8(a, b); }                  \
  static INTACT_INLINE Bytes high8(Bytes a, Bytes b) { return P##_unpackhi_epi8(a, b); }                 \
  static INTACT_INLINE Bytes low16(Bytes a, Bytes b) { return P##_unpacklo_epi16(a, b); }                \
  static INTACT_INLINE Bytes high16(Bytes a, Bytes b) { return P##_unpackhi_epi16(a, b); }               \
  static INTACT_INLINE Ints ints_of(Bytes a) { return a; }                                               \
  static INTACT_INLINE Words words_of(Bytes a) { return a; }                                             \
  static INTACT_INLINE Bytes bytes_of(Integers a) { return a; }                                          \
  static INTACT_INLINE Words pack_words(Ints a, Ints b) { return P##_packs_epi32(a, b); }                \
  static INTACT_INLINE Bytes pack_bytes(Words a, Words b) { return P##_packus_epi16(a, b); }

#define INTACT_X86_CASTS(P, S)                                             \
  static INTACT_INLINE Ints bits(Floats a) { return P##_castps_##S(a.v); } \
  static INTACT_INLINE Floats floats(Ints a) { return {P##_cast##S##_ps(a)}; }

namespace intact {
namespace {

struct Threes {
  alignas(16) int8_t from[3][3][16] = {};
  constexpr Threes() {
    for (int at = 0; at < 48; ++at) {
      for (int row = 0; row < 3; ++row) {
        from[at / 16][row][at % 16] = static_cast<int8_t>(at % 3 == row ? at / 3 : -1);
      }
    }
  }
};
constexpr Threes kThrees;

// For data too short for wider registers.
struct Sse {
  INTACT_X86_INTS(__m128i, _mm, si128)
  INTACT_X86_FLOATS(__m128, _mm)
  static INTACT_INLINE Bytes load_8(const void* p) { return _mm_loadl_epi64(static_cast<const __m128i*>(p)); }
  static INTACT_INLINE void store_8(void* p, Bytes a) { _mm_storel_epi64(static_cast<__m128i*>(p), a); }
  static INTACT_INLINE Bytes low32(Bytes a, Bytes b) { return _mm_unpacklo_epi32(a, b); }
  static INTACT_INLINE Bytes high32(Bytes a, Bytes b) { return _mm_unpackhi_epi32(a, b); }
  static INTACT_INLINE Bytes low64(Bytes a, Bytes b) { return _mm_unpacklo_epi64(a, b); }
  static INTACT_INLINE Bytes high64(Bytes a, Bytes b) { return _mm_unpackhi_epi64(a, b); }
  // Byte 16 * part + i of the result is byte (16 * part + i) / 3 of the row (16 * part + i) % 3.
  static INTACT_INLINE void store_threes(uint8_t* p, Bytes a, Bytes b, Bytes c) {
    for (int part = 0; part < 3; ++part) {
      const auto of = [&](Bytes row, int number) INTACT_INLINE_BODY {
        return _mm_shuffle_epi8(row, load_int(kThrees.from[part][number]));
      };
      store_int(p + 16 * part, _mm_or_si128(of(a, 0), _mm_or_si128(of(b, 1), of(c, 2))));
    }
  }
};

}  // namespace
}  // namespace intact
