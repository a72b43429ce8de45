// sdot: four products and their sum in one instruction, of signed bytes: inputs are shifted by 128, which
// `shift` tells whoever forms the corrections.
#include "kernels/gemm/gemm.h"

#if defined(INTACT_NEON_DOT)
#include <arm_neon.h>

#include <cstring>

namespace intact {
namespace {

constexpr int kUnit = 4;
constexpr int kWidest = 4;
constexpr int kTall = 6;  // 24 registers of sums, 4 of weights, 1 of inputs

template <int kRows, int kVectors>
void sum_tile(const GemmSteps& s, const GemmTile& t, int first) {
  int32x4_t sums[kRows][kVectors];
  const uint8_t* x[kRows];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) sums[r][v] = vld1q_s32(t.correction + kUnit * v);
  }
  const int8_t* w = s.weights;
  const uint8x16_t sign = vdupq_n_u8(0x80);
  for (int32_t run = 0; run < s.counts[0]; ++run) {
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) x[r] = t.x[first + r] + t.x_offset + s.steps[2 * run];
    const ptrdiff_t end = ptrdiff_t{s.steps[2 * run + 1]} * 4;
    for (ptrdiff_t k = 0; k < end; k += 4) {
      int8x16_t weights[kVectors];
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) weights[v] = vld1q_s8(w + 16 * v);
      w += 16 * kVectors;
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        uint32_t bytes;
        std::memcpy(&bytes, x[r] + k, 4);
        const int8x16_t four = vreinterpretq_s8_u8(veorq_u8(vreinterpretq_u8_u32(vdupq_n_u32(bytes)), sign));
#pragma GCC unroll 4
        for (int v = 0; v < kVectors; ++v) sums[r][v] = vdotq_s32(sums[r][v], weights[v], four);
      }
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) vst1q_s32(t.sums + ((first + r) * kVectors + v) * kUnit, sums[r][v]);
  }
}

template <int kVectors>
void sum_rows(const GemmSteps& s, const GemmTile& t) {
  int row = 0;
  for (; row + kTall <= t.rows; row += kTall) sum_tile<kTall, kVectors>(s, t, row);
  for (; row + 2 <= t.rows; row += 2) sum_tile<2, kVectors>(s, t, row);
  if (row < t.rows) sum_tile<1, kVectors>(s, t, row);
}

void sum(const GemmSteps& s, const GemmTile& t) {
  switch (s.width / kUnit) {
    case 1: return sum_rows<1>(s, t);
    case 2: return sum_rows<2>(s, t);
    case 3: return sum_rows<3>(s, t);
    default: return sum_rows<4>(s, t);
  }
}

// 4 floats; `residual` has 4 bytes, or is nullptr.
inline float32x4_t real_of(const Epilogue& e, const GemmRows& t, int at, int c, const uint8_t* residual) {
  const float32x4_t acc = vcvtq_f32_s32(vld1q_s32(t.sums + at));
  float32x4_t real = vaddq_f32(vmulq_f32(acc, vld1q_f32(t.multiplier + c)), vld1q_f32(t.bias + c));
  if (residual == nullptr) return real;
  uint32_t four;
  std::memcpy(&four, residual, 4);
  const uint16x8_t wide = vmovl_u8(vcreate_u8(four));
  const int32x4_t codes = vreinterpretq_s32_u32(vmovl_u16(vget_low_u16(wide)));
  const float32x4_t branch = vcvtq_f32_s32(vsubq_s32(codes, vdupq_n_s32(e.residual_zero_point)));
  return vaddq_f32(real, vmulq_f32(branch, vdupq_n_f32(e.residual_multiplier)));
}

// Whole panels of codes; what is left goes the plain way.
void finish(const Epilogue& e, const GemmRows& t) {
  const bool plain = !e.floats && e.function == nullptr && e.bounded && t.slopes == nullptr && !e.has_gain;
  if (!plain || t.channels != t.width) return gemm_finish(e, t);
  const float32x4_t inverse = vdupq_n_f32(e.divisor.high), rest = vdupq_n_f32(e.divisor.low);
  const int32x4_t zero_point = vdupq_n_s32(e.zero_point);
  const int32x4_t low = vdupq_n_s32(e.low), high = vdupq_n_s32(e.high);
  for (int row = 0; row < t.rows; ++row) {
    const uint8_t* const residual = e.has_residual ? t.residual[row] + t.residual_offset : nullptr;
    for (int c = 0; c < t.width; c += kUnit) {
      float32x4_t real = real_of(e, t, row * t.width + c, c, residual ? residual + c : nullptr);
      if (e.divides) real = vfmaq_f32(vmulq_f32(real, rest), real, inverse);  // base/divisor.h
      const int32x4_t code = vaddq_s32(vcvtnq_s32_f32(real), zero_point);
      const int32x4_t clamped = vminq_s32(vmaxq_s32(code, low), high);
      const uint16x4_t words = vmovn_u32(vreinterpretq_u32_s32(clamped));
      const uint8x8_t bytes = vmovn_u16(vcombine_u16(words, words));
      const uint32_t four = vget_lane_u32(vreinterpret_u32_u8(bytes), 0);
      std::memcpy(t.y[row] + t.y_offset + c, &four, 4);
    }
  }
}

}  // namespace

const GemmOps gemm_neondot = {kUnit, kWidest, false, {12, 12, 12, 12}, 128, sum, finish};

}  // namespace intact
#endif
