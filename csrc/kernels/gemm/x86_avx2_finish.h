// The epilogue of avx2, of sums in memory: to bytes, to floats, and to bytes of a function. For x86_avx2.cc
// alone.
#pragma once

#include <immintrin.h>

#include <bit>
#include <cstring>

#include "base/inline.h"
#include "kernels/gemm/cells.h"
#include "kernels/gemm/gemm.h"

namespace intact {
namespace {

constexpr int kUnit = 8;
constexpr int kWidest = 2;

// Division by the scale of the output (base/divisor.h).
struct Quotient {
  __m256 high, low;
  explicit Quotient(const Divisor& d) : high(_mm256_set1_ps(d.high)), low(_mm256_set1_ps(d.low)) {}
  INTACT_INLINE __m256 of(__m256 x) const { return _mm256_fmadd_ps(x, high, _mm256_mul_ps(x, low)); }
};

struct Lanes {
  __m256 residual_zero_point, residual_multiplier;
  explicit Lanes(const Epilogue& e)
      : residual_zero_point(_mm256_set1_ps(static_cast<float>(e.residual_zero_point))),
        residual_multiplier(_mm256_set1_ps(e.residual_multiplier)) {}
};

// 8 floats, of channels from c on; `residual` has 8 bytes, or is nullptr.
inline __m256 real_of(const GemmRows& t, int row, int c, const Lanes& lanes, const uint8_t* residual) {
  const auto* const sums = reinterpret_cast<const __m256i*>(t.sums + row * t.width + c);
  __m256 real =
      _mm256_mul_ps(_mm256_cvtepi32_ps(_mm256_loadu_si256(sums)), _mm256_loadu_ps(t.multiplier + c));
  real = _mm256_add_ps(real, _mm256_loadu_ps(t.bias + c));
  if (t.gains != nullptr) {
    real = _mm256_mul_ps(real, _mm256_loadu_ps(t.gains + c));
    real = _mm256_add_ps(real, _mm256_loadu_ps(t.shifts + c));
  }
  if (residual == nullptr) return real;
  const __m256i codes = _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(residual)));
  const __m256 branch = _mm256_sub_ps(_mm256_cvtepi32_ps(codes), lanes.residual_zero_point);
  return _mm256_add_ps(real, _mm256_mul_ps(branch, lanes.residual_multiplier));
}

// Reals below 2^30 in magnitude, 16 of one row, to 16 bytes: saturating packs clamp.
struct ToBytes {
  __m256i zero_point;
  __m128i low, high;
  explicit ToBytes(const Epilogue& e)
      : zero_point(_mm256_set1_epi16(static_cast<int16_t>(e.zero_point))),
        low(_mm_set1_epi8(static_cast<char>(e.low))),
        high(_mm_set1_epi8(static_cast<char>(e.high))) {}

  __m128i operator()(__m256 a, __m256 b) const {
    const __m256i packed = _mm256_packs_epi32(_mm256_cvtps_epi32(a), _mm256_cvtps_epi32(b));
    const __m256i words = _mm256_adds_epi16(_mm256_permute4x64_epi64(packed, 0xd8), zero_point);
    const __m128i bytes = _mm_packus_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
    return _mm_min_epu8(_mm_max_epu8(bytes, low), high);
  }
};

// Returns the residual bytes of a row of 8 or 16 channels, all of them readable.
inline const uint8_t* whole_residual(const GemmRows& t, int row, uint8_t (&copy)[16]) {
  if (t.residual == nullptr) return nullptr;
  const uint8_t* const from = t.residual[row] + t.residual_offset;
  if (t.channels == t.width) return from;
  std::memcpy(copy, from, static_cast<size_t>(t.channels));
  return copy;
}

// N48.
inline __m256 sloped(__m256 real, __m256 slope) {
  const __m256 below = _mm256_cmp_ps(real, _mm256_setzero_ps(), _CMP_LT_OQ);
  return _mm256_blendv_ps(real, _mm256_mul_ps(real, slope), below);
}

// Rows of 16 channels, two at a time; constants stay in registers.
template <CodeForm kForm, bool kSloped>
void finish_pairs(const Epilogue& e, const GemmRows& t) {
  constexpr bool kResidual = reads_residual(kForm);
  const __m256 zero = _mm256_set1_ps(static_cast<float>(e.residual_zero_point));
  const __m256 multiplier = _mm256_set1_ps(e.residual_multiplier);
  [[maybe_unused]] const Quotient quotient(e.divisor);
  const __m256 m[2] = {_mm256_loadu_ps(t.multiplier), _mm256_loadu_ps(t.multiplier + kUnit)};
  const __m256 b[2] = {_mm256_loadu_ps(t.bias), _mm256_loadu_ps(t.bias + kUnit)};
  const __m256i zero_point = _mm256_set1_epi16(static_cast<int16_t>(e.zero_point));
  const __m256i low = _mm256_set1_epi8(static_cast<char>(e.low));
  const __m256i high = _mm256_set1_epi8(static_cast<char>(e.high));
  const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
  for (int row = 0; row < t.rows; row += 2) {
    const int rows[2] = {row, row + 1 < t.rows ? row + 1 : row};
    __m256i words[2];
#pragma GCC unroll 2
    for (int i = 0; i < 2; ++i) {
      const uint8_t* const residual = kResidual ? t.residual[rows[i]] + t.residual_offset : nullptr;
      __m256i codes[2];
#pragma GCC unroll 2
      for (int v = 0; v < 2; ++v) {
        const int32_t* const sums = t.sums + (2 * rows[i] + v) * kUnit;
        const __m256i acc = _mm256_load_si256(reinterpret_cast<const __m256i*>(sums));
        __m256 real = _mm256_add_ps(_mm256_mul_ps(_mm256_cvtepi32_ps(acc), m[v]), b[v]);
        if constexpr (kResidual) {
          const auto* const from = reinterpret_cast<const __m128i*>(residual + kUnit * v);
          const __m256 branch = _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadl_epi64(from)));
          real = _mm256_add_ps(real, _mm256_mul_ps(_mm256_sub_ps(branch, zero), multiplier));
        }
        if constexpr (kSloped) real = sloped(real, _mm256_loadu_ps(t.slopes + kUnit * v));
        if constexpr (divides(kForm)) real = quotient.of(real);
        codes[v] = _mm256_cvtps_epi32(real);
      }
      words[i] = _mm256_adds_epi16(_mm256_packs_epi32(codes[0], codes[1]), zero_point);
    }
    const __m256i bytes = _mm256_permutevar8x32_epi32(_mm256_packus_epi16(words[0], words[1]), order);
    const __m256i clamped = _mm256_min_epu8(_mm256_max_epu8(bytes, low), high);
    auto* const first = reinterpret_cast<__m128i*>(t.y[rows[0]] + t.y_offset);
    auto* const second = reinterpret_cast<__m128i*>(t.y[rows[1]] + t.y_offset);
    _mm_storeu_si128(first, _mm256_castsi256_si128(clamped));
    _mm_storeu_si128(second, _mm256_extracti128_si256(clamped, 1));
  }
}

// Rows of any number of channels up to 16.
void finish_codes(const Epilogue& e, const GemmRows& t) {
  const Lanes lanes(e);
  const Quotient quotient(e.divisor);
  const ToBytes to_bytes(e);
  uint8_t copy[16] = {0};
  for (int row = 0; row < t.rows; ++row) {
    const uint8_t* const residual = whole_residual(t, row, copy);
    __m256 a = real_of(t, row, 0, lanes, residual);
    const bool two = t.width == 2 * kUnit;
    const uint8_t* const second = residual == nullptr ? nullptr : residual + kUnit;
    __m256 b = two ? real_of(t, row, kUnit, lanes, second) : a;
    if (t.slopes != nullptr) {
      a = sloped(a, _mm256_loadu_ps(t.slopes));
      if (two) b = sloped(b, _mm256_loadu_ps(t.slopes + kUnit));
    }
    if (e.divides) {
      a = quotient.of(a);
      b = quotient.of(b);
    }
    uint8_t bytes[16];
    _mm_storeu_si128(reinterpret_cast<__m128i*>(bytes), to_bytes(a, b));
    std::memcpy(t.y[row] + t.y_offset, bytes, static_cast<size_t>(t.channels));
  }
}

// The real sums of one row, `width` of them.
void floats_of_row(const Lanes& lanes, const GemmRows& t, int row, float* floats) {
  uint8_t copy[16] = {0};
  const uint8_t* const residual = whole_residual(t, row, copy);
  for (int c = 0; c < t.width; c += kUnit) {
    const uint8_t* const branch = residual == nullptr ? nullptr : residual + c;
    _mm256_storeu_ps(floats + c, real_of(t, row, c, lanes, branch));
  }
}

// The first of 8 lanes.
inline __m256i first_lanes(int n) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

// n lanes, or all where it is more.
inline void store_first(float* y, __m256 reals, int n) {
  if (n >= kUnit) return _mm256_storeu_ps(y, reals);
  _mm256_maskstore_ps(y, first_lanes(n), reals);
}

// N49: x where it equals a bound, and a NaN stays one.
inline __m256 clipped(__m256 x, __m256 low, __m256 high) {
  return _mm256_min_ps(high, _mm256_max_ps(low, x));
}

void finish_floats(const Epilogue& e, const GemmRows& t) {
  const Lanes lanes(e);
  const __m256 low = _mm256_set1_ps(e.real_low), high = _mm256_set1_ps(e.real_high);
  uint8_t copy[16] = {0};
  for (int row = 0; row < t.rows; ++row) {
    const uint8_t* const residual = whole_residual(t, row, copy);
    float* const y = reinterpret_cast<float*>(t.y[row] + t.y_offset);
    for (int c = 0; c < t.channels; c += kUnit) {
      const uint8_t* const branch = residual == nullptr ? nullptr : residual + c;
      __m256 real = real_of(t, row, c, lanes, branch);
      if (t.slopes != nullptr) real = sloped(real, _mm256_loadu_ps(t.slopes + c));
      store_first(y + c, clipped(real, low, high), t.channels - c);
    }
  }
}

// S and O of 8 channels.
inline __m256 scaled(__m256 value, const GemmRows& t, int c) {
  if (t.factors != nullptr) value = _mm256_mul_ps(value, _mm256_loadu_ps(t.factors + c));
  if (t.offsets != nullptr) value = _mm256_add_ps(value, _mm256_loadu_ps(t.offsets + c));
  return value;
}

// The function's values as they are.
void store_floats(const Epilogue& e, const GemmRows& t) {
  const __m256 low = _mm256_set1_ps(e.real_low), high = _mm256_set1_ps(e.real_high);
  for (int row = 0; row < t.rows; ++row) {
    float* const y = reinterpret_cast<float*>(t.y[row] + t.y_offset);
    for (int c = 0; c < t.channels; c += kUnit) {
      const __m256 real = scaled(_mm256_loadu_ps(t.scratch + row * t.channels + c), t, c);
      store_first(y + c, clipped(real, low, high), t.channels - c);
    }
  }
}

// They divided by the scale, to bytes: clamped first, for they may be anything.
void store_codes(const Epilogue& e, const GemmRows& t) {
  const ToBytes to_bytes(e);
  const __m256 scale = _mm256_set1_ps(e.scale);
  const __m256 low = _mm256_set1_ps(static_cast<float>(e.low - e.zero_point));
  const __m256 high = _mm256_set1_ps(static_cast<float>(e.high - e.zero_point));
  for (int row = 0; row < t.rows; ++row) {
    __m256 steps[2];
    for (int v = 0; v < 2; ++v) {
      const int c = t.width == 2 * kUnit ? v * kUnit : 0;
      steps[v] = _mm256_div_ps(scaled(_mm256_loadu_ps(t.scratch + row * t.channels + c), t, c), scale);
      steps[v] = _mm256_min_ps(_mm256_max_ps(steps[v], low), high);
    }
    uint8_t bytes[16];
    _mm_storeu_si128(reinterpret_cast<__m128i*>(bytes), to_bytes(steps[0], steps[1]));
    std::memcpy(t.y[row] + t.y_offset, bytes, static_cast<size_t>(t.channels));
  }
}

// Returns whether rows of so many bytes are written side by side, as if they were one.
inline bool side_by_side(const GemmRows& t, ptrdiff_t bytes) {
  bool all = true;
  for (int row = 1; row < t.rows; ++row) all &= t.y[row] - t.y[row - 1] == bytes;
  return all;
}

// Their bytes, which the curve leaves where its reals were, if rows are not side by side.
void store_curve(const Epilogue& e, const GemmRows& t, size_t n) {
  if (side_by_side(t, t.channels)) return e.curve(t.scratch, n, e.curve_codes(), t.y[0] + t.y_offset);
  auto* const bytes = reinterpret_cast<uint8_t*>(t.scratch);
  e.curve(t.scratch, n, e.curve_codes(), bytes);
  for (int row = 0; row < t.rows; ++row) {
    std::memcpy(t.y[row] + t.y_offset, bytes + row * t.channels, static_cast<size_t>(t.channels));
  }
}

inline bool has_few(const Epilogue& e, const GemmRows& t) {
  return !e.has_residual && !e.has_gain && t.channels < kUnit &&
         std::has_single_bit(static_cast<unsigned>(t.channels));
}

// Reals of so few channels that a vector has those of several rows, whose sums are gathered: rows that are
// stored one over the other are slow to read.
void place_few(const GemmRows& t) {
  const __m256i lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  const __m256i channels = _mm256_and_si256(lanes, _mm256_set1_epi32(t.channels - 1));
  const __m256i rows =
      _mm256_srl_epi32(lanes, _mm_cvtsi32_si128(std::countr_zero(static_cast<unsigned>(t.channels))));
  const __m256i places = _mm256_add_epi32(_mm256_mullo_epi32(rows, _mm256_set1_epi32(t.width)), channels);
  const __m256 m = _mm256_permutevar8x32_ps(_mm256_loadu_ps(t.multiplier), channels);
  const __m256 b = _mm256_permutevar8x32_ps(_mm256_loadu_ps(t.bias), channels);
  const int n = t.rows * t.channels, step = kUnit / t.channels * t.width;
  const int32_t* sums = t.sums;
  for (int i = 0; i < n; i += kUnit, sums += step) {
    const __m256i some =
        _mm256_mask_i32gather_epi32(_mm256_setzero_si256(), sums, places, first_lanes(n - i), 4);
    _mm256_storeu_ps(t.scratch + i, _mm256_add_ps(_mm256_mul_ps(_mm256_cvtepi32_ps(some), m), b));
  }
}

// The function gets the whole tile at once, its chains of operations being long; rows of `channels` side by
// side in scratch: what a vector holds beyond is overwritten by the next row, and costs no function.
void finish_function(const Epilogue& e, const GemmRows& t) {
  const Lanes lanes(e);
  if (has_few(e, t)) {
    place_few(t);
  } else {
    for (int row = 0; row < t.rows; ++row) floats_of_row(lanes, t, row, t.scratch + row * t.channels);
  }
  const size_t n = static_cast<size_t>(t.rows) * static_cast<size_t>(t.channels);
  if (e.curve != nullptr) return store_curve(e, t, n);
  e.function(t.scratch, t.scratch, n);
  return e.floats ? store_floats(e, t) : store_codes(e, t);
}

// Some rows of finish_function.
void finish_some(const Epilogue& e, GemmRows t, int row, int rows) {
  t.sums += row * t.width;
  t.y += row;
  t.rows = rows;
  finish_function(e, t);
}

// Bounds of the codes of a function whose rest has an end (cells.h), of four vectors at a time: rows of one
// or two. Cells are no gain: this set has no registers to look 32 of them up in. kEach: channels have factors
// or offsets.
template <int kVectors, bool kEach>
class Bounds {
 public:
  static constexpr int kRows = 4 / kVectors;

  Bounds(const Epilogue& e, const GemmRows& t)
      : e_(e),
        t_(t),
        width_(_mm256_set1_ps(e.cells->width)),
        top_(_mm256_set1_ps(e.cells->top)),
        ramp_(_mm256_set1_ps(e.cells->ramp)),
        end_(_mm256_set1_ps(e.cells->end)),
        sign_(_mm256_set1_ps(-0.0f)),
        zero_point_(_mm256_set1_epi16(static_cast<int16_t>(e.zero_point))),
        low_(_mm256_set1_epi8(static_cast<char>(e.low))),
        high_(_mm256_set1_epi8(static_cast<char>(e.high))),
        order_(_mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7)) {
    for (int i = 0; i < 3; ++i) terms_[i] = _mm256_set1_ps(e.cells->terms[i][0]);
    for (int v = 0; v < kVectors; ++v) {
      m_[v] = _mm256_loadu_ps(t.multiplier + kUnit * v);
      b_[v] = _mm256_loadu_ps(t.bias + kUnit * v);
      if (t.gains != nullptr) {  // they become part of both, which the bounds allow for
        const __m256 gain = _mm256_loadu_ps(t.gains + kUnit * v);
        m_[v] = _mm256_mul_ps(m_[v], gain);
        b_[v] = _mm256_fmadd_ps(b_[v], gain, _mm256_loadu_ps(t.shifts + kUnit * v));
      }
      if constexpr (kEach) place_channels(e, t, v);
    }
  }

  // The same bytes as finish_function.
  template <int kTogether>
  INTACT_INLINE void write(int row) const {
    constexpr int kHeld = kTogether * kVectors;
    const int32_t* const sums = t_.sums + row * kVectors * kUnit;
    __m256i least[4], most[4];
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      const __m256 lower = i < kHeld ? lower_of(sums + kUnit * i, i % kVectors) : _mm256_setzero_ps();
      least[i] = _mm256_cvtps_epi32(lower);
      most[i] = i < kHeld ? _mm256_cvtps_epi32(_mm256_add_ps(lower, width_)) : least[i];
    }
    const __m256i ab = _mm256_packs_epi32(least[0], least[1]), cd = _mm256_packs_epi32(least[2], least[3]);
    const __m256i same = _mm256_and_si256(_mm256_cmpeq_epi16(ab, _mm256_packs_epi32(most[0], most[1])),
                                          _mm256_cmpeq_epi16(cd, _mm256_packs_epi32(most[2], most[3])));
    if (_mm256_movemask_epi8(same) != -1) [[unlikely]]
      return finish_some(e_, t_, row, kTogether);
    const __m256i bytes =
        _mm256_packus_epi16(_mm256_adds_epi16(ab, zero_point_), _mm256_adds_epi16(cd, zero_point_));
    store<kTogether>(
        row, _mm256_permutevar8x32_epi32(_mm256_min_epu8(_mm256_max_epu8(bytes, low_), high_), order_));
  }

 private:
  void place_channels(const Epilogue& e, const GemmRows& t, int v) {
    const __m256 factor =
        t.factors == nullptr ? _mm256_set1_ps(e.factor) : _mm256_loadu_ps(t.factors + kUnit * v);
    const __m256 offset =
        t.offsets == nullptr ? _mm256_set1_ps(e.offset) : _mm256_loadu_ps(t.offsets + kUnit * v);
    factors_[v] = _mm256_mul_ps(factor, _mm256_set1_ps(e.cells->per_factor));
    offsets_[v] = _mm256_fmsub_ps(offset, _mm256_set1_ps(e.cells->per_scale), _mm256_set1_ps(e.cells->doubt));
  }

  INTACT_INLINE __m256 lower_of(const int32_t* sums, int v) const {
    const __m256 acc = _mm256_cvtepi32_ps(_mm256_load_si256(reinterpret_cast<const __m256i*>(sums)));
    const __m256 x = _mm256_min_ps(_mm256_fmadd_ps(acc, m_[v], b_[v]), top_);
    const __m256 size = _mm256_min_ps(_mm256_andnot_ps(sign_, x), end_);
    const __m256 rest = _mm256_fmadd_ps(_mm256_fmadd_ps(terms_[2], size, terms_[1]), size, terms_[0]);
    const __m256 lower = _mm256_fmadd_ps(_mm256_max_ps(x, _mm256_setzero_ps()), ramp_, rest);
    return kEach ? _mm256_fmadd_ps(lower, factors_[v], offsets_[v]) : lower;
  }

  template <int kTogether>
  INTACT_INLINE void store(int row, __m256i bytes) const {
    constexpr int kRow = kVectors * kUnit;
    alignas(32) uint8_t all[32];
    _mm256_store_si256(reinterpret_cast<__m256i*>(all), bytes);
#pragma GCC unroll 4
    for (int i = 0; i < kTogether; ++i) {
      uint8_t* const y = t_.y[row + i] + t_.y_offset;
      if (t_.channels == kRow) {
        std::memcpy(y, all + kRow * i, kRow);
      } else {
        std::memcpy(y, all + kRow * i, static_cast<size_t>(t_.channels));
      }
    }
  }

  const Epilogue& e_;
  const GemmRows& t_;
  const __m256 width_, top_, ramp_, end_, sign_;
  const __m256i zero_point_, low_, high_, order_;
  __m256 terms_[3], m_[kVectors], b_[kVectors], factors_[kVectors], offsets_[kVectors];
};

template <int kVectors, bool kEach>
void finish_bounds(const Epilogue& e, const GemmRows& t) {
  constexpr int kRows = Bounds<kVectors, kEach>::kRows;
  const Bounds<kVectors, kEach> bounds(e, t);
  int row = 0;
  for (; row + kRows <= t.rows; row += kRows) bounds.template write<kRows>(row);
  for (; row < t.rows; ++row) bounds.template write<1>(row);
}

void finish(const Epilogue& e, const GemmRows& t) {
  if (e.function != nullptr) {
    const bool bounds = e.cells != nullptr && e.cells->end > 0 && !e.floats && !e.has_residual;
    if (!bounds) return finish_function(e, t);
    if (e.cells->each) return t.width == kUnit ? finish_bounds<1, true>(e, t) : finish_bounds<2, true>(e, t);
    return t.width == kUnit ? finish_bounds<1, false>(e, t) : finish_bounds<2, false>(e, t);
  }
  if (e.floats) return finish_floats(e, t);
  if (!e.bounded) return gemm_finish(e, t);
  if (e.has_gain || t.channels != 2 * kUnit) return finish_codes(e, t);  // no loop of its own for a gain
  using enum CodeForm;
  if (t.slopes != nullptr) {
    return e.has_residual ? finish_pairs<divided_with_residual, true>(e, t)
                          : finish_pairs<divided, true>(e, t);
  }
  switch (e.code_form()) {
    case product: return finish_pairs<product, false>(e, t);
    case divided: return finish_pairs<divided, false>(e, t);
    default: return finish_pairs<divided_with_residual, false>(e, t);
  }
}

}  // namespace
}  // namespace intact
