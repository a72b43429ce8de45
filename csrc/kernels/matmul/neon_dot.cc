// udot: four products of unsigned bytes and their sum in one instruction, exact modulo 2^32. Of codes as they
// are:
//
//   sum (a - za)(b - zb) = sum a b  - zb sum a  - za sum b  + k za zb
//
// Behind the end of k both are 0.
#include "kernels/matmul/matmul.h"

#if defined(INTACT_NEON_DOT)
#include <arm_neon.h>

#include <cstring>

#include "kernels/matmul/pack_any.h"

namespace intact {
namespace {

constexpr size_t kRows = 4, kVectors = 4, kColumns = 4 * kVectors;
constexpr size_t kDepth = 16;  // a register of a has four steps
constexpr size_t kStep = kColumns * 4;

constexpr size_t padded(size_t k) { return (k + kDepth - 1) / kDepth * kDepth; }

void pack_a(const MatMulSide& a, const MatMulZeros& zeros, void* packed, int32_t* terms) {
  auto* to = static_cast<uint8_t*>(packed);
  const size_t pitch = padded(a.k);
  for (size_t i = 0; i < a.lines; ++i, to += pitch) {
    const uint8_t* from = a.codes + static_cast<ptrdiff_t>(i) * a.line;
    if (a.step == 1) {
      std::memcpy(to, from, a.k);
    } else {
      for (size_t k = 0; k < a.k; ++k) to[k] = from[static_cast<ptrdiff_t>(k) * a.step];
    }
    std::memset(to + a.k, 0, pitch - a.k);
    uint32x4_t sum = vdupq_n_u32(0);
    for (size_t k = 0; k < pitch; k += 16) sum = vdotq_u32(sum, vld1q_u8(to + k), vdupq_n_u8(1));
    terms[i] = static_cast<int32_t>(static_cast<uint32_t>(-zeros.b) * vaddvq_u32(sum));
  }
}

// 16 neighbours, of which the first n exist.
inline uint8x16_t sixteen(const uint8_t* from, size_t n) {
  if (n >= 16) return vld1q_u8(from);
  uint8_t codes[16] = {};
  std::memcpy(codes, from, n);
  return vld1q_u8(codes);
}

// Columns are neighbours: four rows of 16 of them become 16 columns of four.
void pack_rows(const MatMulSide& b, uint8_t* to) {
  for (size_t k = 0; k < padded(b.k); k += 4, to += kStep) {
    uint8x16x4_t rows;
    for (size_t i = 0; i < 4; ++i) {
      const uint8_t* from = b.codes + static_cast<ptrdiff_t>(k + i) * b.step;
      rows.val[i] = k + i < b.k ? sixteen(from, b.lines) : vdupq_n_u8(0);
    }
    vst4q_u8(to, rows);
  }
}

// 4 x 4 numbers of 32 bits, rows for columns.
inline void transpose(uint32x4_t (&r)[4]) {
  const auto low = [](uint32x4_t a, uint32x4_t b) {
    return vreinterpretq_u32_u64(vzip1q_u64(vreinterpretq_u64_u32(a), vreinterpretq_u64_u32(b)));
  };
  const auto high = [](uint32x4_t a, uint32x4_t b) {
    return vreinterpretq_u32_u64(vzip2q_u64(vreinterpretq_u64_u32(a), vreinterpretq_u64_u32(b)));
  };
  const uint32x4_t even01 = vtrn1q_u32(r[0], r[1]), odd01 = vtrn2q_u32(r[0], r[1]);
  const uint32x4_t even23 = vtrn1q_u32(r[2], r[3]), odd23 = vtrn2q_u32(r[2], r[3]);
  r[0] = low(even01, even23);
  r[1] = low(odd01, odd23);
  r[2] = high(even01, even23);
  r[3] = high(odd01, odd23);
}

// Each column's codes are neighbours: 4 columns of 16 codes at a time.
void pack_columns(const MatMulSide& b, uint8_t* to) {
  for (size_t j = 0; j < kColumns; j += 4) {
    for (size_t k = 0; k < b.k; k += 16) {
      uint32x4_t r[4];
      for (size_t i = 0; i < 4; ++i) {
        const uint8_t* from = b.codes + static_cast<ptrdiff_t>(j + i) * b.line + static_cast<ptrdiff_t>(k);
        r[i] = j + i < b.lines ? vreinterpretq_u32_u8(sixteen(from, b.k - k)) : vdupq_n_u32(0);
      }
      transpose(r);
      for (size_t i = 0; i < 4; ++i) {
        vst1q_u8(to + (k / 4 + i) * kStep + j * 4, vreinterpretq_u8_u32(r[i]));
      }
    }
  }
}

void pack_b(const MatMulSide& b, const MatMulZeros& zeros, void* packed, int32_t* terms) {
  auto* to = static_cast<uint8_t*>(packed);
  if (b.line == 1) {
    pack_rows(b, to);
  } else if (b.step == 1) {
    pack_columns(b, to);
  } else {
    pack_any<kColumns, kDepth, 0>(b, to);
  }
  const auto constant = static_cast<uint32_t>(b.k) * static_cast<uint32_t>(zeros.a * zeros.b);
  for (size_t v = 0; v < kVectors; ++v) {
    uint32x4_t sum = vdupq_n_u32(0);
    for (size_t k = 0; zeros.a != 0 && k < b.k; k += 4) {
      sum = vdotq_u32(sum, vld1q_u8(to + k * kColumns + 16 * v), vdupq_n_u8(1));
    }
    const uint32x4_t all = vmlaq_n_u32(vdupq_n_u32(constant), sum, static_cast<uint32_t>(-zeros.a));
    vst1q_s32(terms + 4 * v, vreinterpretq_s32_u32(all));
  }
}

template <size_t rows>
void tile_of(const uint8_t* a, const int32_t* a_terms, const uint8_t* b, const int32_t* b_terms, size_t k,
             int32_t* sums) {
  uint32x4_t acc[rows][kVectors];
#pragma GCC unroll 4
  for (size_t i = 0; i < rows; ++i) {
#pragma GCC unroll 4
    for (size_t v = 0; v < kVectors; ++v) {
      acc[i][v] = vreinterpretq_u32_s32(vaddq_s32(vld1q_s32(b_terms + 4 * v), vdupq_n_s32(a_terms[i])));
    }
  }
  for (size_t p = 0; p < k; p += kDepth, b += 4 * kStep) {
    uint8x16_t codes[rows];
#pragma GCC unroll 4
    for (size_t i = 0; i < rows; ++i) codes[i] = vld1q_u8(a + i * k + p);
    const auto step = [&](auto dot, size_t s) {
#pragma GCC unroll 4
      for (size_t v = 0; v < kVectors; ++v) {
        const uint8x16_t panel = vld1q_u8(b + s * kStep + 16 * v);
#pragma GCC unroll 4
        for (size_t i = 0; i < rows; ++i) acc[i][v] = dot(acc[i][v], panel, codes[i]);
      }
    };
    using Sums = uint32x4_t;
    using Codes = uint8x16_t;
    step([](Sums c, Codes x, Codes y) { return vdotq_laneq_u32(c, x, y, 0); }, 0);
    step([](Sums c, Codes x, Codes y) { return vdotq_laneq_u32(c, x, y, 1); }, 1);
    step([](Sums c, Codes x, Codes y) { return vdotq_laneq_u32(c, x, y, 2); }, 2);
    step([](Sums c, Codes x, Codes y) { return vdotq_laneq_u32(c, x, y, 3); }, 3);
  }
#pragma GCC unroll 4
  for (size_t i = 0; i < rows; ++i) {
#pragma GCC unroll 4
    for (size_t v = 0; v < kVectors; ++v) {
      vst1q_s32(sums + i * kColumns + 4 * v, vreinterpretq_s32_u32(acc[i][v]));
    }
  }
}

void tile(const void* a, const int32_t* a_terms, size_t rows, const void* b, const int32_t* b_terms, size_t k,
          int32_t* sums) {
  constexpr decltype(&tile_of<1>) kTiles[kRows] = {tile_of<1>, tile_of<2>, tile_of<3>, tile_of<4>};
  kTiles[rows - 1](static_cast<const uint8_t*>(a), a_terms, static_cast<const uint8_t*>(b), b_terms, k, sums);
}

inline float32x4_t real4(const int32_t* sums, float multiplier) {
  return vaddq_f32(vmulq_n_f32(vcvtq_f32_s32(vld1q_s32(sums)), multiplier), vdupq_n_f32(0));
}

// Sums lie in whole tiles, so that reading 4 of them is always allowed.
void codes(const int32_t* sums, size_t n, float multiplier, const Divisor& d, const ByteGrid& g, uint8_t* y) {
  const float32x4_t inverse = vdupq_n_f32(d.high), rest = vdupq_n_f32(d.low);
  const float32x4_t low = vdupq_n_f32(static_cast<float>(g.low - g.zero));
  const float32x4_t high = vdupq_n_f32(static_cast<float>(g.high - g.zero));
  for (size_t i = 0; i < n; i += 4) {
    const float32x4_t real = real4(sums + i, multiplier);
    const float32x4_t quotient = vfmaq_f32(vmulq_f32(real, rest), real, inverse);  // base/divisor.h
    const float32x4_t steps = vminq_f32(vmaxq_f32(quotient, low), high);
    const int32x4_t code = vaddq_s32(vcvtnq_s32_f32(steps), vdupq_n_s32(g.zero));
    const uint16x4_t words = vmovn_u32(vreinterpretq_u32_s32(code));
    const uint32_t four = vget_lane_u32(vreinterpret_u32_u8(vmovn_u16(vcombine_u16(words, words))), 0);
    std::memcpy(y + i, &four, n - i < 4 ? n - i : 4);
  }
}

void floats(const int32_t* sums, size_t n, const MatMulReals& r, float* y) {
  const float32x4_t least = vdupq_n_f32(r.low), most = vdupq_n_f32(r.high);
  const float32x4_t quotient = vdupq_n_f32(r.quotient);
  const bool divides = r.quotient != 1;  // which is slow
  for (size_t i = 0; i < n; i += 4) {
    float32x4_t real = vmulq_n_f32(real4(sums + i, r.multiplier), r.gain);
    if (divides) real = vdivq_f32(real, quotient);
    const float32x4_t raised = vbslq_f32(vcltq_f32(real, least), least, real);
    const float32x4_t v = vbslq_f32(vcgtq_f32(raised, most), most, raised);
    if (n - i >= 4) {
      vst1q_f32(y + i, v);
    } else {
      std::memcpy(y + i, &v, (n - i) * sizeof *y);
    }
  }
}

}  // namespace

const MatMulOps matmul_neondot = {kRows, kColumns, kDepth, 1, pack_a, pack_b, tile, codes, floats};

}  // namespace intact
#endif
