// 16 floats at a time; the parts of rows through masks.
#include "kernels/float_steps/loops.h"

#if INTACT_ARCH_X86
#include <cstring>

#include "base/vector/avx512.h"

namespace intact {
namespace {

// 2^f by fused products, -0.5 <= f <= 0.5, within 6 u of its size.
constexpr float kShortExp2[] = {1.0f,
                                0.6931470036506653f,
                                0.24022242426872253f,
                                0.05550733581185341f,
                                0.009671512991189957f,
                                0.001326472731307149f};

constexpr size_t kMostCertain = 1024, kTogether = 4;
constexpr float kMostTop = 65536.0f;  // its product with log2(e), rounded, moves no power by half a percent

int exponent_of(float positive) {
  uint32_t bits;
  std::memcpy(&bits, &positive, sizeof bits);
  return static_cast<int>(bits >> 23) - 127;
}

// Bounds the distance of certain_codes()'s real from the one that softmax() and quantize() round, as a
// share of its size, wherever it is a quarter of a step or more. With u = 2^-24:
//   2^z by either polynomial: 6 u here, 4 u there, and z itself is off by 3 u |z| ln 2 together. An element
//   of a quarter of a step has |z| <= log2(4 / scale); the mean of |z| in a sum of 2^z is at most log2(n).
//   sums: n / 16 + 5 additions of numbers that are not negative, each u, here and there.
//   the divisions and products that are left: 8 u.
// Reals smaller than a quarter of a step are off by less than another one, and have the byte of 0 either
// way.
float doubt_of(size_t n, float scale) {
  const int depth = 3 - exponent_of(scale), width = exponent_of(static_cast<float>(n)) + 1;
  const size_t units =
      2 * (6 + 4) + static_cast<size_t>(2.1f * static_cast<float>(depth + width)) + 2 * (n / 16 + 5) + 8;
  return static_cast<float>(units + 2) * 0x1p-24f;
}

constexpr float kLeast = -std::numeric_limits<float>::infinity(), kLog2E = 1.44269504f;

float largest_of(const float* x, size_t room) {
  __m512 largest[4];
  for (int v = 0; v < 4; ++v) largest[v] = _mm512_loadu_ps(x + 16 * v);
  for (size_t i = 64; i < room; i += 64) {
    for (int v = 0; v < 4; ++v) largest[v] = _mm512_max_ps(largest[v], _mm512_loadu_ps(x + i + 16 * v));
  }
  const __m512 ab = _mm512_max_ps(largest[0], largest[1]), cd = _mm512_max_ps(largest[2], largest[3]);
  return _mm512_reduce_max_ps(_mm512_max_ps(ab, cd));
}

// 2^(x log2(e) - top) and their sum. What is not a number makes the sum none either.
float powers_of(const float* x, size_t room, float largest, float* powers) {
  const __m512 top = _mm512_set1_ps(largest * kLog2E), log2e = _mm512_set1_ps(kLog2E);
  const __m512 least = _mm512_set1_ps(-126.0f), rounder = _mm512_set1_ps(float_steps::kRounder);
  __m512 sums[4];
  for (int v = 0; v < 4; ++v) sums[v] = _mm512_setzero_ps();
  for (size_t i = 0; i < room; i += 64) {
    for (int v = 0; v < 4; ++v) {
      const __m512 z = _mm512_max_ps(least, _mm512_fmsub_ps(_mm512_loadu_ps(x + i + 16 * v), log2e, top));
      const __m512 shifted = _mm512_add_ps(z, rounder);
      const __m512 f = _mm512_sub_ps(z, _mm512_sub_ps(shifted, rounder));
      __m512 power = _mm512_set1_ps(kShortExp2[5]);
      for (int c = 4; c >= 0; --c) power = _mm512_fmadd_ps(power, f, _mm512_set1_ps(kShortExp2[c]));
      power = _mm512_mul_ps(power, float_steps::power_in<Avx512>({shifted}).v);
      _mm512_store_ps(powers + i + 16 * v, power);
      sums[v] = _mm512_add_ps(sums[v], power);
    }
  }
  return _mm512_reduce_add_ps(
      _mm512_add_ps(_mm512_add_ps(sums[0], sums[1]), _mm512_add_ps(sums[2], sums[3])));
}

// Clamped as quantize() does: packs saturate, and a byte grid's zero is small.
struct Bytes64 {
  __m512i zero, low, high, order;
  explicit Bytes64(const ByteGrid& g)
      : zero(_mm512_set1_epi16(static_cast<int16_t>(g.zero))),
        low(_mm512_set1_epi8(static_cast<char>(g.low))),
        high(_mm512_set1_epi8(static_cast<char>(g.high))),
        order(_mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15)) {}
  // In an order of their own.
  __m512i of(const float* powers, __m512 steps) const {
    __m512i codes[4];
    for (int v = 0; v < 4; ++v) {
      codes[v] = _mm512_cvtps_epi32(_mm512_mul_ps(_mm512_load_ps(powers + 16 * v), steps));
    }
    const __m512i ab = _mm512_adds_epi16(_mm512_packs_epi32(codes[0], codes[1]), zero);
    const __m512i cd = _mm512_adds_epi16(_mm512_packs_epi32(codes[2], codes[3]), zero);
    return _mm512_min_epu8(_mm512_max_epu8(_mm512_packus_epi16(ab, cd), low), high);
  }
};

// The bytes of a row of probabilities, where both bounds of each round to the same one; else false.
bool certain_codes(const float* powers, size_t n, float steps, float doubt, const Bytes64& bytes,
                   uint8_t* q) {
  const __m512 fewer = _mm512_set1_ps(steps * (1.0f - doubt)), more = _mm512_set1_ps(steps * (1.0f + doubt));
  for (size_t i = 0; i < n; i += 64) {
    const __m512i least = bytes.of(powers + i, fewer), most = bytes.of(powers + i, more);
    if (_mm512_cmpneq_epi8_mask(least, most) != 0) return false;
    const __mmask64 part = n - i >= 64 ? ~uint64_t{0} : (uint64_t{1} << (n - i)) - 1;
    _mm512_mask_storeu_epi8(q + i, part, _mm512_permutexvar_epi32(bytes.order, least));
  }
  return true;
}

// Rows in step with each other: each of their sums waits for long chains of operations.
void softmax_codes(float* x, size_t rows, size_t pitch, size_t n, float scale, const ByteGrid& grid,
                   uint8_t* q) {
  const Bytes64 bytes(grid);
  const bool sane = n <= kMostCertain && scale >= 0x1p-20f && scale <= 1.0f;
  alignas(64) float powers[kTogether * kMostCertain];
  const float doubt = sane ? doubt_of(n, scale) : 0.0f;
  const size_t room = (n + 63) / 64 * 64;
  for (size_t from = 0; from < rows; from += kTogether) {
    const size_t count = rows - from < kTogether ? rows - from : kTogether;
    float tops[kTogether] = {}, sums[kTogether] = {};
    for (size_t r = 0; sane && r < count; ++r) {
      float* const row = x + (from + r) * pitch;
      for (size_t i = n; i < room; ++i) row[i] = kLeast;
      tops[r] = largest_of(row, room);
    }
    for (size_t r = 0; sane && r < count; ++r) {
      sums[r] = powers_of(x + (from + r) * pitch, room, tops[r], powers + r * room);
    }
    for (size_t r = 0; r < count; ++r) {
      float* const row = x + (from + r) * pitch;
      uint8_t* const to = q + (from + r) * n;
      const bool plain = sums[r] > 0.5f && tops[r] > -kMostTop && tops[r] < kMostTop;
      if (plain && certain_codes(powers + r * room, n, 1.0f / (sums[r] * scale), doubt, bytes, to)) continue;
      float_steps::quantize<Avx512>(row, n, float_steps::softmax<Avx512>(row, n, 1.0f, nullptr), scale, grid,
                                    to);
    }
  }
}

constexpr FloatOps ops() {
  FloatOps ops = float_steps::ops_of<Avx512>();
  ops.softmax_codes = softmax_codes;
  return ops;
}

}  // namespace

const FloatOps float_steps_avx512 = ops();

}  // namespace intact
#endif
