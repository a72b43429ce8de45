// The epilogue of avx512: sums to floats, to bytes, and to bytes of a function.
#pragma once

#include <bit>

#include "base/inline.h"
#include "kernels/gemm/cells.h"
#include "kernels/gemm/gemm.h"

#if INTACT_ARCH_X86
#include <immintrin.h>

namespace intact {
namespace {

constexpr int kUnit = 16;

// Division by the scale of the output (base/divisor.h).
struct Quotient {
  __m512 high, low;
  explicit Quotient(const Divisor& d) : high(_mm512_set1_ps(d.high)), low(_mm512_set1_ps(d.low)) {}
  INTACT_INLINE __m512 of(__m512 x) const { return _mm512_fmadd_ps(x, high, _mm512_mul_ps(x, low)); }
};

// The constants of an epilogue that all vectors share.
struct Lanes {
  __m512 residual_zero_point, residual_multiplier;
  explicit Lanes(const Epilogue& e)
      : residual_zero_point(_mm512_set1_ps(static_cast<float>(e.residual_zero_point))),
        residual_multiplier(_mm512_set1_ps(e.residual_multiplier)) {}
};

template <bool kPlain>
inline __m512 branch_of(const Lanes& lanes, const uint8_t* residual, __mmask16 mask) {
  __m512 branch = _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_maskz_loadu_epi8(mask, residual)));
  if constexpr (!kPlain) branch = _mm512_sub_ps(branch, lanes.residual_zero_point);
  return _mm512_mul_ps(branch, lanes.residual_multiplier);
}

// G and H of channels from `c` on.
struct Gains {
  const float *gains, *shifts;  // nullptr: there are none
  explicit Gains(const GemmRows& t) : gains(t.gains), shifts(t.shifts) {}
  INTACT_INLINE __m512 of(__m512 real, int c) const {
    if (gains == nullptr) return real;
    return _mm512_add_ps(_mm512_mul_ps(real, _mm512_loadu_ps(gains + c)), _mm512_loadu_ps(shifts + c));
  }
};

INTACT_INLINE __m512 real_of(const int32_t* sums, __m512 m, __m512 b) {
  return _mm512_add_ps(_mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_load_si512(sums)), m), b);
}

inline __mmask16 mask_of(int channels, int v) {
  const int left = channels - kUnit * v;
  return left >= kUnit ? 0xffff : static_cast<__mmask16>((1u << left) - 1);
}

// Reals below 2^30 in magnitude to bytes: saturating packs clamp, a permutation undoes their order.
struct ToBytes {
  __m512i zero_point, low, high, order;
  explicit ToBytes(const Epilogue& e)
      : zero_point(_mm512_set1_epi16(static_cast<int16_t>(e.zero_point))),
        low(_mm512_set1_epi8(static_cast<char>(e.low))),
        high(_mm512_set1_epi8(static_cast<char>(e.high))),
        order(_mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15)) {}

  __m512i bytes_of_words(__m512i ab, __m512i cd) const {
    const __m512i bytes =
        _mm512_packus_epi16(_mm512_adds_epi16(ab, zero_point), _mm512_adds_epi16(cd, zero_point));
    return _mm512_permutexvar_epi32(order, _mm512_min_epu8(_mm512_max_epu8(bytes, low), high));
  }

  // kPlain: zero point and low are 0.
  template <bool kPlain>
  __m512i bytes_of(const __m512 (&floats)[4]) const {
    __m512i ab = _mm512_packs_epi32(_mm512_cvtps_epi32(floats[0]), _mm512_cvtps_epi32(floats[1]));
    __m512i cd = _mm512_packs_epi32(_mm512_cvtps_epi32(floats[2]), _mm512_cvtps_epi32(floats[3]));
    if constexpr (!kPlain) {
      ab = _mm512_adds_epi16(ab, zero_point);
      cd = _mm512_adds_epi16(cd, zero_point);
    }
    __m512i bytes = _mm512_packus_epi16(ab, cd);
    if constexpr (!kPlain) bytes = _mm512_max_epu8(bytes, low);
    return _mm512_permutexvar_epi32(order, _mm512_min_epu8(bytes, high));
  }
};

// N48.
inline __m512 sloped(__m512 real, __m512 slope) {
  return _mm512_mask_mul_ps(real, _mm512_cmp_ps_mask(real, _mm512_setzero_ps(), _CMP_LT_OQ), real, slope);
}

// Factors of channels between the sum and its code: none, slopes, or gains, and slopes where there are some.
enum class Between { nothing, slopes, gains };

template <int kVectors, CodeForm kForm, bool kPlain, Between kBetween>
void finish_codes(const Epilogue& e, const GemmRows& t) {
  constexpr bool kResidual = reads_residual(kForm);
  const Lanes lanes(e);
  [[maybe_unused]] const Quotient quotient(e.divisor);
  [[maybe_unused]] const Gains gains(t);
  const ToBytes to_bytes(e);
  const __mmask64 all = t.channels >= 64 ? ~0ull : (1ull << t.channels) - 1;
  __m512 m[kVectors], b[kVectors];
  [[maybe_unused]] __m512 slopes[kVectors];
  __mmask16 masks[kVectors];
#pragma GCC unroll 4
  for (int v = 0; v < kVectors; ++v) {
    m[v] = _mm512_loadu_ps(t.multiplier + kUnit * v);
    b[v] = _mm512_loadu_ps(t.bias + kUnit * v);
    if constexpr (kBetween == Between::slopes) slopes[v] = _mm512_loadu_ps(t.slopes + kUnit * v);
    masks[v] = mask_of(t.channels, v);
  }
  for (int row = 0; row < t.rows; ++row) {
    const int32_t* const sums = t.sums + row * kUnit * kVectors;
    const uint8_t* const residual = kResidual ? t.residual[row] + t.residual_offset : nullptr;
    __m512 floats[4];
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      floats[v] = real_of(sums + kUnit * v, m[v], b[v]);
      if constexpr (kBetween == Between::gains) floats[v] = gains.of(floats[v], kUnit * v);
      if constexpr (kResidual) {
        floats[v] = _mm512_add_ps(floats[v], branch_of<kPlain>(lanes, residual + kUnit * v, masks[v]));
      }
      if constexpr (kBetween == Between::slopes) floats[v] = sloped(floats[v], slopes[v]);
      if (kBetween == Between::gains && t.slopes != nullptr) {
        floats[v] = sloped(floats[v], _mm512_loadu_ps(t.slopes + kUnit * v));
      }
      if constexpr (divides(kForm)) floats[v] = quotient.of(floats[v]);
    }
    for (int v = kVectors; v < 4; ++v) floats[v] = floats[0];
    _mm512_mask_storeu_epi8(t.y[row] + t.y_offset, all, to_bytes.bytes_of<kPlain>(floats));
  }
}

// The real of channels from c on.
template <bool kResidual>
inline __m512 whole_real_of(const Lanes& lanes, const GemmRows& t, int row, int c) {
  const __m512 m = _mm512_loadu_ps(t.multiplier + c), b = _mm512_loadu_ps(t.bias + c);
  const __m512 real = Gains(t).of(real_of(t.sums + row * t.width + c, m, b), c);
  if constexpr (!kResidual) return real;
  const __mmask16 mask = mask_of(t.channels, c / kUnit);
  return _mm512_add_ps(real, branch_of<false>(lanes, t.residual[row] + t.residual_offset + c, mask));
}

// N49: x where it equals a bound, and a NaN stays one.
inline __m512 clipped(__m512 x, __m512 low, __m512 high) {
  return _mm512_min_ps(high, _mm512_max_ps(low, x));
}

template <bool kResidual>
void finish_floats(const Epilogue& e, const GemmRows& t) {
  const Lanes lanes(e);
  const __m512 low = _mm512_set1_ps(e.real_low), high = _mm512_set1_ps(e.real_high);
  for (int row = 0; row < t.rows; ++row) {
    float* const y = reinterpret_cast<float*>(t.y[row] + t.y_offset);
    for (int c = 0; c < t.channels; c += kUnit) {
      const __mmask16 mask = mask_of(t.channels, c / kUnit);
      __m512 real = whole_real_of<kResidual>(lanes, t, row, c);
      if (t.slopes != nullptr) real = sloped(real, _mm512_loadu_ps(t.slopes + c));
      real = clipped(real, low, high);
      _mm512_mask_storeu_ps(y + c, mask, real);
    }
  }
}

// The reals, rows of `channels` side by side in scratch: what a vector holds beyond is overwritten by the
// next row, and costs no function. That gets the whole tile at once: its chains of operations are long.
template <bool kResidual>
void place_reals(const Epilogue& e, const GemmRows& t) {
  const Lanes lanes(e);
  for (int row = 0; row < t.rows; ++row) {
    for (int c = 0; c < t.channels; c += kUnit) {
      _mm512_storeu_ps(t.scratch + row * t.channels + c, whole_real_of<kResidual>(lanes, t, row, c));
    }
  }
}

bool has_few(const Epilogue& e, const GemmRows& t) {
  return !e.has_residual && !e.has_gain && t.channels < kUnit &&
         std::has_single_bit(static_cast<unsigned>(t.channels));
}

// As place_reals, of so few channels that a vector has those of several rows, whose sums are gathered: rows
// that are stored one over the other are slow to read.
void place_few(const GemmRows& t) {
  const __m512i lanes = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  const __m512i channels = _mm512_and_si512(lanes, _mm512_set1_epi32(t.channels - 1));
  const __m512i rows =
      _mm512_srl_epi32(lanes, _mm_cvtsi32_si128(std::countr_zero(static_cast<unsigned>(t.channels))));
  const __m512i places = _mm512_add_epi32(_mm512_mullo_epi32(rows, _mm512_set1_epi32(t.width)), channels);
  const __mmask16 width = mask_of(t.width, 0);
  const __m512 m = _mm512_permutexvar_ps(channels, _mm512_maskz_loadu_ps(width, t.multiplier));
  const __m512 b = _mm512_permutexvar_ps(channels, _mm512_maskz_loadu_ps(width, t.bias));
  const int n = t.rows * t.channels, step = kUnit / t.channels * t.width;
  const int32_t* sums = t.sums;
  for (int i = 0; i < n; i += kUnit, sums += step) {
    const __m512i some =
        _mm512_mask_i32gather_epi32(_mm512_setzero_si512(), mask_of(n, i / kUnit), places, sums, 4);
    _mm512_storeu_ps(t.scratch + i, _mm512_add_ps(_mm512_mul_ps(_mm512_cvtepi32_ps(some), m), b));
  }
}

// Returns whether rows of so many bytes are written side by side, as if they were one.
inline bool side_by_side(const GemmRows& t, ptrdiff_t bytes) {
  bool all = true;
  for (int row = 1; row < t.rows; ++row) all &= t.y[row] - t.y[row - 1] == bytes;
  return all;
}

// S and O of 16 channels, or of as many as the panel has.
inline __m512 scaled(__m512 value, const GemmRows& t, int c) {
  const __mmask16 width = mask_of(t.width, c / kUnit);
  if (t.factors != nullptr) value = _mm512_mul_ps(value, _mm512_maskz_loadu_ps(width, t.factors + c));
  if (t.offsets != nullptr) value = _mm512_add_ps(value, _mm512_maskz_loadu_ps(width, t.offsets + c));
  return value;
}

// The function's values as they are.
void store_floats(const Epilogue& e, const GemmRows& t) {
  const __m512 low = _mm512_set1_ps(e.real_low), high = _mm512_set1_ps(e.real_high);
  const bool plain = t.factors == nullptr && t.offsets == nullptr;
  if (plain && side_by_side(t, t.channels * static_cast<ptrdiff_t>(sizeof(float)))) {
    auto* const y = reinterpret_cast<float*>(t.y[0] + t.y_offset);
    for (int i = 0, n = t.rows * t.channels; i < n; i += kUnit) {
      const __m512 real = clipped(_mm512_loadu_ps(t.scratch + i), low, high);
      _mm512_mask_storeu_ps(y + i, mask_of(n, i / kUnit), real);
    }
    return;
  }
  for (int row = 0; row < t.rows; ++row) {
    float* const y = reinterpret_cast<float*>(t.y[row] + t.y_offset);
    for (int c = 0; c < t.channels; c += kUnit) {
      const __m512 real = scaled(_mm512_loadu_ps(t.scratch + row * t.channels + c), t, c);
      _mm512_mask_storeu_ps(y + c, mask_of(t.channels, c / kUnit), clipped(real, low, high));
    }
  }
}

// They divided by the scale, to bytes: clamped first, for they may be anything.
void store_codes(const Epilogue& e, const GemmRows& t) {
  const __m512 scale = _mm512_set1_ps(e.scale);
  const __m512 low = _mm512_set1_ps(static_cast<float>(e.low - e.zero_point));
  const __m512 high = _mm512_set1_ps(static_cast<float>(e.high - e.zero_point));
  const __m512i zero_point = _mm512_set1_epi32(e.zero_point);
  for (int row = 0; row < t.rows; ++row) {
    for (int c = 0; c < t.channels; c += kUnit) {
      const __m512 value = scaled(_mm512_loadu_ps(t.scratch + row * t.channels + c), t, c);
      const __m512 steps = _mm512_div_ps(value, scale);
      const __m512i codes = _mm512_cvtps_epi32(_mm512_min_ps(_mm512_max_ps(steps, low), high));
      _mm512_mask_cvtepi32_storeu_epi8(t.y[row] + t.y_offset + c, mask_of(t.channels, c / kUnit),
                                       _mm512_add_epi32(codes, zero_point));
    }
  }
}

// Their bytes, which the curve leaves where its reals were, if rows are not side by side.
void store_curve(const Epilogue& e, const GemmRows& t, size_t n) {
  if (side_by_side(t, t.channels)) return e.curve(t.scratch, n, e.curve_codes(), t.y[0] + t.y_offset);
  auto* const bytes = reinterpret_cast<uint8_t*>(t.scratch);
  e.curve(t.scratch, n, e.curve_codes(), bytes);
  const __mmask64 all = t.channels >= 64 ? ~0ull : (1ull << t.channels) - 1;
  for (int row = 0; row < t.rows; ++row) {
    const __m512i codes = _mm512_maskz_loadu_epi8(all, bytes + row * t.channels);
    _mm512_mask_storeu_epi8(t.y[row] + t.y_offset, all, codes);
  }
}

void finish_function(const Epilogue& e, const GemmRows& t) {
  const size_t n = static_cast<size_t>(t.rows) * static_cast<size_t>(t.channels);
  if (has_few(e, t)) {
    place_few(t);
  } else {
    e.has_residual ? place_reals<true>(e, t) : place_reals<false>(e, t);
  }
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

// Bounds of a function's codes (cells.h), of up to four vectors at a time: rows of one or two are taken
// together. kEach: channels have factors or offsets.
template <int kVectors, bool kEnd, bool kEach>
class Bounds {
 public:
  static constexpr int kRows = kVectors <= 2 ? 4 / kVectors : 1;

  Bounds(const Epilogue& e, const GemmRows& t)
      : e_(e),
        t_(t),
        to_bytes_(e),
        all_(t.channels >= 64 ? ~0ull : (1ull << t.channels) - 1),
        width_(_mm512_set1_ps(e.cells->width)),
        top_(_mm512_set1_ps(e.cells->top)),
        ramp_(_mm512_set1_ps(e.cells->ramp)),
        farthest_(_mm512_set1_ps(kEnd ? e.cells->end : kMostCell)),
        rounder_(_mm512_set1_ps(12582912.0f)) {
    const __m512 per_unit = _mm512_set1_ps(e.cells->per_unit);
    for (int i = 0; i < kTerms; ++i) {
      terms_[i][0] = kEnd ? _mm512_set1_ps(e.cells->terms[i][0]) : _mm512_load_ps(e.cells->terms[i]);
      terms_[i][1] = _mm512_load_ps(e.cells->terms[i] + kUnit);
    }
    for (int v = 0; v < kVectors; ++v) {
      m_[v] = _mm512_mul_ps(_mm512_loadu_ps(t.multiplier + kUnit * v), per_unit);
      b_[v] = _mm512_mul_ps(_mm512_loadu_ps(t.bias + kUnit * v), per_unit);
      if (t.gains != nullptr) fold(t, v, per_unit);
      if constexpr (kEach) place_channels(e, t, v);
    }
  }

  // The same bytes as finish_function.
  template <int kTogether>
  INTACT_INLINE void write(int row) const {
    constexpr int kHeld = kTogether * kVectors;
    const int32_t* const sums = t_.sums + row * kUnit * kVectors;
    __m512i least[4], most[4];
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      const __m512 lower = i < kHeld ? lower_of(sums + kUnit * i, i % kVectors) : _mm512_setzero_ps();
      least[i] = _mm512_cvtps_epi32(lower);
      most[i] = i < kHeld ? _mm512_cvtps_epi32(_mm512_add_ps(lower, width_)) : least[i];
    }
    const __m512i ab = _mm512_packs_epi32(least[0], least[1]), cd = _mm512_packs_epi32(least[2], least[3]);
    const auto differ = _mm512_cmpneq_epi16_mask(ab, _mm512_packs_epi32(most[0], most[1])) |
                        _mm512_cmpneq_epi16_mask(cd, _mm512_packs_epi32(most[2], most[3]));
    if (differ != 0) return finish_some(e_, t_, row, kTogether);
    store<kTogether>(row, to_bytes_.bytes_of_words(ab, cd));
  }

 private:
  static constexpr int kTerms = kEnd ? 3 : kCellTerms;

  // G and H become part of the multiplier and the bias, which the bounds allow for.
  void fold(const GemmRows& t, int v, __m512 per_unit) {
    const __m512 gain = _mm512_loadu_ps(t.gains + kUnit * v), shift = _mm512_loadu_ps(t.shifts + kUnit * v);
    m_[v] = _mm512_mul_ps(m_[v], gain);
    b_[v] = _mm512_fmadd_ps(b_[v], gain, _mm512_mul_ps(shift, per_unit));
  }

  void place_channels(const Epilogue& e, const GemmRows& t, int v) {
    const auto of = [&](const float* each, float all) {
      return each == nullptr ? _mm512_set1_ps(all) : _mm512_loadu_ps(each + kUnit * v);
    };
    const __m512 doubt = _mm512_set1_ps(e.cells->doubt), per_scale = _mm512_set1_ps(e.cells->per_scale);
    factors_[v] = _mm512_mul_ps(of(t.factors, e.factor), _mm512_set1_ps(e.cells->per_factor));
    offsets_[v] = _mm512_fmsub_ps(of(t.offsets, e.offset), per_scale, doubt);
  }

  __m512 lower_of(const int32_t* sums, int v) const {
    const __m512 acc = _mm512_cvtepi32_ps(_mm512_load_si512(sums));
    const __m512 x = _mm512_min_ps(_mm512_fmadd_ps(acc, m_[v], b_[v]), top_);
    const __m512 size = _mm512_range_ps(x, farthest_, 10);  // the smaller magnitude, without a sign
    const __m512 shifted = _mm512_add_ps(size, rounder_);
    const __m512i cell = _mm512_castps_si512(shifted);
    const __m512 t = kEnd ? size : _mm512_sub_ps(size, _mm512_sub_ps(shifted, rounder_));
    __m512 y = term(kTerms - 1, cell);
#pragma GCC unroll 4
    for (int power = kTerms - 2; power >= 0; --power) y = _mm512_fmadd_ps(y, t, term(power, cell));
    const __m512 lower = _mm512_fmadd_ps(_mm512_max_ps(x, _mm512_setzero_ps()), ramp_, y);
    return kEach ? _mm512_fmadd_ps(lower, factors_[v], offsets_[v]) : lower;
  }

  __m512 term(int power, __m512i cell) const {
    if constexpr (kEnd) return terms_[power][0];
    return _mm512_permutex2var_ps(terms_[power][0], cell, terms_[power][1]);
  }

  template <int kTogether>
  void store(int row, __m512i bytes) const {
    if constexpr (kTogether == 1) {
      _mm512_mask_storeu_epi8(at(row), all_, bytes);
    } else if constexpr (kTogether == 2) {
      const auto some = static_cast<__mmask32>(all_);
      _mm256_mask_storeu_epi8(at(row), some, _mm512_castsi512_si256(bytes));
      _mm256_mask_storeu_epi8(at(row + 1), some, _mm512_extracti64x4_epi64(bytes, 1));
    } else {
      const auto some = static_cast<__mmask16>(all_);
      _mm_mask_storeu_epi8(at(row), some, _mm512_castsi512_si128(bytes));
      _mm_mask_storeu_epi8(at(row + 1), some, _mm512_extracti32x4_epi32(bytes, 1));
      _mm_mask_storeu_epi8(at(row + 2), some, _mm512_extracti32x4_epi32(bytes, 2));
      _mm_mask_storeu_epi8(at(row + 3), some, _mm512_extracti32x4_epi32(bytes, 3));
    }
  }

  uint8_t* at(int row) const { return t_.y[row] + t_.y_offset; }

  const Epilogue& e_;
  const GemmRows& t_;
  const ToBytes to_bytes_;
  const __mmask64 all_;
  const __m512 width_, top_, ramp_, farthest_, rounder_;
  __m512 terms_[kTerms][2], m_[kVectors], b_[kVectors], factors_[kVectors], offsets_[kVectors];
};

template <int kVectors, bool kEnd, bool kEach>
void finish_cells(const Epilogue& e, const GemmRows& t) {
  constexpr int kRows = Bounds<kVectors, kEnd, kEach>::kRows;
  const Bounds<kVectors, kEnd, kEach> bounds(e, t);
  int row = 0;
  for (; row + kRows <= t.rows; row += kRows) bounds.template write<kRows>(row);
  for (; row < t.rows; ++row) bounds.template write<1>(row);
}

template <bool kEnd, bool kEach>
void finish_smooth(const Epilogue& e, const GemmRows& t) {
  switch (t.width / kUnit) {
    case 1: return finish_cells<1, kEnd, kEach>(e, t);
    case 2: return finish_cells<2, kEnd, kEach>(e, t);
    case 3: return finish_cells<3, kEnd, kEach>(e, t);
    default: return finish_cells<4, kEnd, kEach>(e, t);
  }
}

void finish_smooth(const Epilogue& e, const GemmRows& t) {
  if (e.cells->end > 0)
    return e.cells->each ? finish_smooth<true, true>(e, t) : finish_smooth<true, false>(e, t);
  e.cells->each ? finish_smooth<false, true>(e, t) : finish_smooth<false, false>(e, t);
}

template <CodeForm kForm, bool kPlain, Between kBetween = Between::nothing>
void finish_panel(const Epilogue& e, const GemmRows& t) {
  switch (t.width / kUnit) {
    case 1: return finish_codes<1, kForm, kPlain, kBetween>(e, t);
    case 2: return finish_codes<2, kForm, kPlain, kBetween>(e, t);
    case 3: return finish_codes<3, kForm, kPlain, kBetween>(e, t);
    default: return finish_codes<4, kForm, kPlain, kBetween>(e, t);
  }
}

// Few layers: without loops of their own for what is left of zero points.
template <Between kBetween>
void finish_between(const Epilogue& e, const GemmRows& t) {
  using enum CodeForm;
  e.has_residual ? finish_panel<divided_with_residual, false, kBetween>(e, t)
                 : finish_panel<divided, false, kBetween>(e, t);
}

// Behind a Relu nothing is left of zero points: that is most layers.
void finish_bounded(const Epilogue& e, const GemmRows& t) {
  using enum CodeForm;
  if (t.gains != nullptr) return finish_between<Between::gains>(e, t);
  if (t.slopes != nullptr) return finish_between<Between::slopes>(e, t);
  const bool plain = e.zero_point == 0 && e.low == 0 && (!e.has_residual || e.residual_zero_point == 0);
  switch (e.code_form()) {
    case product: return plain ? finish_panel<product, true>(e, t) : finish_panel<product, false>(e, t);
    case divided: return plain ? finish_panel<divided, true>(e, t) : finish_panel<divided, false>(e, t);
    default:
      return plain ? finish_panel<divided_with_residual, true>(e, t)
                   : finish_panel<divided_with_residual, false>(e, t);
  }
}

void finish(const Epilogue& e, const GemmRows& t) {
  if (e.function != nullptr) {
    const bool smooth = e.cells != nullptr && !e.floats && !e.has_residual;
    return smooth ? finish_smooth(e, t) : finish_function(e, t);
  }
  if (e.floats) return e.has_residual ? finish_floats<true>(e, t) : finish_floats<false>(e, t);
  if (!e.bounded) return gemm_finish(e, t);
  return finish_bounded(e, t);
}

}  // namespace
}  // namespace intact
#endif
