// NEON, as every 64-bit Arm has it.
#pragma once

#include <arm_neon.h>

#include <array>
#include <cmath>
#include <cstring>

#include "base/vector/vector.h"

namespace intact {
namespace {

struct Neon {
  using Ints = int32x4_t;
  using Words = int16x8_t;
  using Bytes = uint8x16_t;
  using Mask = uint32x4_t;
  using Narrow = Neon;
  static constexpr size_t kBytes = 16, kWidth = 4;

  struct Floats {
    float32x4_t v;
    friend INTACT_INLINE Floats operator+(Floats a, Floats b) { return {vaddq_f32(a.v, b.v)}; }
    friend INTACT_INLINE Floats operator-(Floats a, Floats b) { return {vsubq_f32(a.v, b.v)}; }
    friend INTACT_INLINE Floats operator*(Floats a, Floats b) { return {vmulq_f32(a.v, b.v)}; }
    friend INTACT_INLINE Floats operator/(Floats a, Floats b) { return {vdivq_f32(a.v, b.v)}; }
  };

  static INTACT_INLINE Floats set(float v) { return {vdupq_n_f32(v)}; }
  static INTACT_INLINE Floats load(const float* p) { return {vld1q_f32(p)}; }
  static INTACT_INLINE void store(float* p, Floats a) { vst1q_f32(p, a.v); }
  static INTACT_INLINE Floats load_part(const float* p, size_t n, float fill) {
    float lanes[4] = {fill, fill, fill, fill};
    std::memcpy(lanes, p, n * sizeof *p);
    return load(lanes);
  }
  static INTACT_INLINE void store_part(float* p, Floats a, size_t n) {
    float lanes[4];
    store(lanes, a);
    std::memcpy(p, lanes, n * sizeof *p);
  }
  static INTACT_INLINE Floats keep(Floats a, size_t n) {
    alignas(16) static constexpr uint32_t kLane[4] = {0, 1, 2, 3};
    return only(vcltq_u32(vld1q_u32(kLane), vdupq_n_u32(static_cast<uint32_t>(n))), a);
  }
  static INTACT_INLINE Ints load_int(const void* p) {
    return vreinterpretq_s32_u8(vld1q_u8(static_cast<const uint8_t*>(p)));
  }
  static INTACT_INLINE void store_int(void* p, Ints a) {
    vst1q_u8(static_cast<uint8_t*>(p), vreinterpretq_u8_s32(a));
  }
  static INTACT_INLINE Bytes load_bytes(const void* p) { return vld1q_u8(static_cast<const uint8_t*>(p)); }
  static INTACT_INLINE void store_bytes(void* p, Bytes a) { vst1q_u8(static_cast<uint8_t*>(p), a); }
  static INTACT_INLINE Bytes load_8(const uint8_t* p) { return vcombine_u8(vld1_u8(p), vdup_n_u8(0)); }
  static INTACT_INLINE void store_8(uint8_t* p, Bytes a) { vst1_u8(p, vget_low_u8(a)); }
  static INTACT_INLINE Bytes load_bytes_part(const uint8_t* p, size_t n) {
    uint8_t bytes[16] = {};
    std::memcpy(bytes, p, n);
    return vld1q_u8(bytes);
  }
  static INTACT_INLINE void store_bytes_part(uint8_t* p, Bytes a, size_t n) {
    uint8_t bytes[16];
    vst1q_u8(bytes, a);
    std::memcpy(p, bytes, n);
  }

  static INTACT_INLINE uint32_t four(const uint8_t* p, size_t n = 4) {
    uint32_t bytes = 0;
    std::memcpy(&bytes, p, n);
    return bytes;
  }
  static INTACT_INLINE Ints from_u8(uint32_t bytes) {
    const uint16x8_t words = vmovl_u8(vcreate_u8(bytes));
    return vreinterpretq_s32_u32(vmovl_u16(vget_low_u16(words)));
  }
  static INTACT_INLINE Ints from_s8(uint32_t bytes) {
    return vmovl_s16(vget_low_s16(vmovl_s8(vcreate_s8(bytes))));
  }
  static INTACT_INLINE Ints load_u8(const uint8_t* p) { return from_u8(four(p)); }
  static INTACT_INLINE Ints load_u8_part(const uint8_t* p, size_t n) { return from_u8(four(p, n)); }
  static INTACT_INLINE Ints load_s8(const uint8_t* p) { return from_s8(four(p)); }
  static INTACT_INLINE Ints load_s8_part(const uint8_t* p, size_t n) { return from_s8(four(p, n)); }
  static INTACT_INLINE void store_u8(uint8_t* p, Ints a) { store_u8_part(p, a, 4); }
  static INTACT_INLINE void store_u8_part(uint8_t* p, Ints a, size_t n) {
    const uint16x4_t words = vmovn_u32(vreinterpretq_u32_s32(a));
    const uint32_t bytes = vget_lane_u32(vreinterpret_u32_u8(vmovn_u16(vcombine_u16(words, words))), 0);
    std::memcpy(p, &bytes, n);
  }
  static INTACT_INLINE Ints load_u16(const uint16_t* p) {
    return vreinterpretq_s32_u32(vmovl_u16(vld1_u16(p)));
  }
  static INTACT_INLINE void store_u16(uint16_t* p, Ints a) {
    vst1_u16(p, vmovn_u32(vreinterpretq_u32_s32(a)));
  }
  static INTACT_INLINE Floats from_f16(const uint16_t* p) {
    return {vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p)))};
  }
  static INTACT_INLINE void to_f16(uint16_t* p, Floats a) {
    vst1_u16(p, vreinterpret_u16_f16(vcvt_f16_f32(a.v)));
  }
  static INTACT_INLINE Floats from_f64(const double* p) {
    return {vcombine_f32(vcvt_f32_f64(vld1q_f64(p)), vcvt_f32_f64(vld1q_f64(p + 2)))};
  }
  static INTACT_INLINE void to_f64(double* p, Floats a) {
    vst1q_f64(p, vcvt_f64_f32(vget_low_f32(a.v)));
    vst1q_f64(p + 2, vcvt_high_f64_f32(a.v));
  }

  static INTACT_INLINE Floats fma(Floats a, Floats b, Floats c) { return {vfmaq_f32(c.v, a.v, b.v)}; }
  static INTACT_INLINE Floats larger(Floats a, Floats b) { return select(vcgtq_f32(a.v, b.v), a, b); }
  static INTACT_INLINE Floats smaller(Floats a, Floats b) { return select(vcltq_f32(a.v, b.v), a, b); }
  static INTACT_INLINE Floats sqrt(Floats a) { return {vsqrtq_f32(a.v)}; }
  static INTACT_INLINE Floats abs(Floats a) { return {vabsq_f32(a.v)}; }
  static INTACT_INLINE Floats with_sign(Floats a, Floats sign) {
    return {vbslq_f32(vdupq_n_u32(0x80000000u), sign.v, a.v)};
  }
  static INTACT_INLINE float root(float v) { return std::sqrt(v); }
  static INTACT_INLINE Floats round(Floats a) { return {vrndnq_f32(a.v)}; }
  static INTACT_INLINE Ints to_int(Floats a) { return vcvtnq_s32_f32(a.v); }
  static INTACT_INLINE Ints truncate(Floats a) { return vcvtq_s32_f32(a.v); }
  static INTACT_INLINE Floats to_float(Ints a) { return {vcvtq_f32_s32(a)}; }

  static INTACT_INLINE Mask is_nan(Floats a) { return vmvnq_u32(vceqq_f32(a.v, a.v)); }
  static INTACT_INLINE Mask less(Floats a, Floats b) { return vcltq_f32(a.v, b.v); }
  static INTACT_INLINE Mask less_equal(Floats a, Floats b) { return vcleq_f32(a.v, b.v); }
  static INTACT_INLINE Mask both(Mask a, Mask b) { return vandq_u32(a, b); }
  static INTACT_INLINE Mask either(Mask a, Mask b) { return vorrq_u32(a, b); }
  static INTACT_INLINE bool any(Mask a) { return vmaxvq_u32(a) != 0; }
  static INTACT_INLINE bool all(Mask a) { return vminvq_u32(a) != 0; }
  static INTACT_INLINE Floats only(Mask m, Floats a) { return select(m, a, set(0.0f)); }
  static INTACT_INLINE Floats select(Mask m, Floats yes, Floats no) { return {vbslq_f32(m, yes.v, no.v)}; }
  static INTACT_INLINE Ints select(Mask m, Ints yes, Ints no) { return vbslq_s32(m, yes, no); }

  static INTACT_INLINE Ints set_int(int32_t v) { return vdupq_n_s32(v); }
  static INTACT_INLINE Ints add_int(Ints a, Ints b) { return vaddq_s32(a, b); }
  static INTACT_INLINE Ints sub_int(Ints a, Ints b) { return vsubq_s32(a, b); }
  static INTACT_INLINE Ints and_int(Ints a, Ints b) { return vandq_s32(a, b); }
  static INTACT_INLINE Ints or_int(Ints a, Ints b) { return vorrq_s32(a, b); }
  static INTACT_INLINE Ints xor_int(Ints a, Ints b) { return veorq_s32(a, b); }
  static INTACT_INLINE Ints larger_int(Ints a, Ints b) { return vmaxq_s32(a, b); }
  static INTACT_INLINE Ints multiply_int(Ints a, Ints b) { return vmulq_s32(a, b); }
  template <int kBits>
  static INTACT_INLINE Ints shift_down(Ints a) {
    return vshrq_n_s32(a, kBits);
  }
  template <int kBits>
  static INTACT_INLINE Ints shift_left(Ints a) {
    return vshlq_n_s32(a, kBits);
  }
  template <int kBits>
  static INTACT_INLINE Ints shift_right(Ints a) {
    return vreinterpretq_s32_u32(vshrq_n_u32(vreinterpretq_u32_s32(a), kBits));
  }
  static INTACT_INLINE Ints bits(Floats a) { return vreinterpretq_s32_f32(a.v); }
  static INTACT_INLINE Floats floats(Ints a) { return {vreinterpretq_f32_s32(a)}; }
  static INTACT_INLINE Floats lookup(const float (&table)[8], Ints index) {
    const auto* bytes = reinterpret_cast<const uint8_t*>(table);
    const uint32x4_t entry = vandq_u32(vreinterpretq_u32_s32(index), vdupq_n_u32(7));
    const uint32x4_t at = vmlaq_n_u32(vdupq_n_u32(0x03020100), entry, 0x04040404);
    const uint8x16x2_t all = {{vld1q_u8(bytes), vld1q_u8(bytes + 16)}};
    return {vreinterpretq_f32_u8(vqtbl2q_u8(all, vreinterpretq_u8_u32(at)))};
  }

  static INTACT_INLINE float smallest_of(Floats a) { return vminvq_f32(a.v); }
  static INTACT_INLINE float largest_of(Floats a) { return vmaxvq_f32(a.v); }
  static INTACT_INLINE int32_t largest_int_of(Ints a) { return vmaxvq_s32(a); }
  static INTACT_INLINE float tree(const std::array<Floats, 4>& lanes) {
    const Floats four = (lanes[0] + lanes[2]) + (lanes[1] + lanes[3]);
    const float32x2_t two = vadd_f32(vget_low_f32(four.v), vget_high_f32(four.v));
    return vget_lane_f32(two, 0) + vget_lane_f32(two, 1);
  }

  static INTACT_INLINE Bytes set_bytes(int v) { return vdupq_n_u8(static_cast<uint8_t>(v)); }
  static INTACT_INLINE Words set_words(int v) { return vdupq_n_s16(static_cast<int16_t>(v)); }
  static INTACT_INLINE Bytes larger_bytes(Bytes a, Bytes b) { return vmaxq_u8(a, b); }
  static INTACT_INLINE Bytes smaller_bytes(Bytes a, Bytes b) { return vminq_u8(a, b); }
  static INTACT_INLINE Words load_words(const uint8_t* p) {
    return vreinterpretq_s16_u16(vmovl_u8(vld1_u8(p)));
  }
  static INTACT_INLINE Words load_words(const int8_t* p) { return vmovl_s8(vld1_s8(p)); }
  static INTACT_INLINE void store_words(int16_t* p, Words a) { vst1q_s16(p, a); }
  template <int kBits>
  static INTACT_INLINE Words shift_words(Words a) {
    return vshlq_n_s16(a, kBits);
  }
  static INTACT_INLINE Words sub_words(Words a, Words b) { return vsubq_s16(a, b); }
  static INTACT_INLINE Words add_words(Words a, Words b) { return vaddq_s16(a, b); }
  static INTACT_INLINE Words add_words_saturated(Words a, Words b) { return vqaddq_s16(a, b); }
  static INTACT_INLINE Words pack_words(Ints a, Ints b) { return vcombine_s16(vqmovn_s32(a), vqmovn_s32(b)); }
  static INTACT_INLINE Bytes pack_bytes(Words a, Words b) {
    return vcombine_u8(vqmovun_s16(a), vqmovun_s16(b));
  }
  static INTACT_INLINE Ints ints_of(Bytes a) { return vreinterpretq_s32_u8(a); }
  static INTACT_INLINE Words words_of(Bytes a) { return vreinterpretq_s16_u8(a); }
  static INTACT_INLINE Bytes bytes_of(Words a) { return vreinterpretq_u8_s16(a); }
  static INTACT_INLINE Bytes bytes_of(Ints a) { return vreinterpretq_u8_s32(a); }
  static INTACT_INLINE Bytes low8(Bytes a, Bytes b) { return vzip1q_u8(a, b); }
  static INTACT_INLINE Bytes high8(Bytes a, Bytes b) { return vzip2q_u8(a, b); }
#define INTACT_ZIP(name, zip, T)                                                                  \
  static INTACT_INLINE Bytes name(Bytes a, Bytes b) {                                             \
    return vreinterpretq_u8_##T(zip##_##T(vreinterpretq_##T##_u8(a), vreinterpretq_##T##_u8(b))); \
  }
  INTACT_ZIP(low16, vzip1q, u16)
  INTACT_ZIP(high16, vzip2q, u16)
  INTACT_ZIP(low32, vzip1q, u32)
  INTACT_ZIP(high32, vzip2q, u32)
  INTACT_ZIP(low64, vzip1q, u64)
  INTACT_ZIP(high64, vzip2q, u64)
#undef INTACT_ZIP
  static INTACT_INLINE void store_threes(uint8_t* p, Bytes a, Bytes b, Bytes c) {
    vst3q_u8(p, uint8x16x3_t{{a, b, c}});
  }
};

}  // namespace
}  // namespace intact
