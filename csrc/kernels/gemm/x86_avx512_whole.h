// Tiles that keep their sums in registers until they are codes: for layers of few products, whose epilogues
// cost as much as a third of their sums. For x86_avx512.cc alone.
//
// GCC moves arithmetic to where its result is used and copies sums that are read as two types, which spills:
// `pin` holds values where they are.
#pragma once

#include <immintrin.h>

#include <cstring>
#include <type_traits>
#include <utility>

#include "base/inline.h"
#include "kernels/gemm/gemm.h"

namespace intact {
namespace {

constexpr int kLanes = 16;

// f(0), f(1), ... with each index as a type: unrolled before registers are given to arrays.
template <class F, int... i>
INTACT_INLINE void each(std::integer_sequence<int, i...>, const F& f) {
  (f(std::integral_constant<int, i>{}), ...);
}
template <int kCount, class F>
INTACT_INLINE void each(const F& f) {
  each(std::make_integer_sequence<int, kCount>{}, f);
}

INTACT_INLINE void pin([[maybe_unused]] __m512i& value) {
#if defined(__GNUC__)
  asm volatile("" : "+v"(value));
#endif
}

INTACT_INLINE void pin([[maybe_unused]] const int8_t*& value) {
#if defined(__GNUC__)
  asm volatile("" : "+r"(value));
#endif
}

template <int kRows, int kVectors>
struct Sums {
  __m512i at[kRows][kVectors];

  INTACT_INLINE void start(const int32_t* correction) {
    each<kVectors>([&](auto v) INTACT_INLINE_BODY {
      at[0][v] = _mm512_loadu_si512(correction + kLanes * v);
      each<kRows - 1>([&](auto r) INTACT_INLINE_BODY { at[r + 1][v] = at[0][v]; });
    });
  }

  INTACT_INLINE void pin_all() {
    each<kRows>([&](auto r) INTACT_INLINE_BODY {
      each<kVectors>([&](auto v) INTACT_INLINE_BODY { pin(at[r][v]); });
    });
  }
};

// The memory to fetch while one tile is summed.
struct Fetch {
  const int8_t* next;
  ptrdiff_t bytes;  // for each step: a line, or 0
};

// Deals what is fetched to tiles, a line for each step: all at once would hold up what is read now.
class Fetching {
 public:
  Fetching(const GemmSteps& s, const GemmTile& t, ptrdiff_t steps)
      : here_(s.weights), next_(t.next), left_(t.next == nullptr ? 0 : t.next_bytes), piece_(steps * kLine) {}

  Fetch piece() {
    if (left_ <= 0) return {here_, 0};
    const Fetch found{next_, kLine};
    next_ += piece_;
    left_ -= piece_;
    return found;
  }

 private:
  static constexpr ptrdiff_t kLine = 64;
  const int8_t *here_, *next_;
  ptrdiff_t left_, piece_;
};

// The progress of one tile's products: its rows, the weights, and the memory fetched in passing.
template <int kRows, int kVectors>
struct Products {
  const GemmSteps& s;
  const uint8_t* const* rows;
  const ptrdiff_t x_offset;
  const int8_t* w;
  Fetch fetch;
  const uint8_t* x[kRows];
  ptrdiff_t k = 0, end = 0;

  INTACT_INLINE Products(const GemmSteps& steps, const GemmTile& t, int first, Fetch also)
      : s(steps), rows(t.x + first), x_offset(t.x_offset), w(steps.weights), fetch(also) {}

  INTACT_INLINE void begin(int32_t run) {
    each<kRows>([&](auto r) INTACT_INLINE_BODY { x[r] = rows[r] + x_offset + s.steps[2 * run]; });
    k = 0;
    end = ptrdiff_t{s.steps[2 * run + 1]} * 4;
  }

  INTACT_INLINE void step(Sums<kRows, kVectors>& sums) {
    // 28 sums, 3 vectors of weights and 4 bytes of a row fill the registers: the 4th is read for each row.
    constexpr int kHeld = kRows * kVectors > 27 ? kVectors - 1 : kVectors;
    __m512i weights[kVectors];
    each<kHeld>([&](auto v) INTACT_INLINE_BODY {
      weights[v] = _mm512_loadu_si512(w + 64 * v);
      pin(weights[v]);
    });
    _mm_prefetch(reinterpret_cast<const char*>(fetch.next), _MM_HINT_T1);
    each<kRows>([&](auto r) INTACT_INLINE_BODY {
      int32_t bytes;
      std::memcpy(&bytes, x[r] + k, 4);
      const __m512i four = _mm512_set1_epi32(bytes);
      if constexpr (kHeld < kVectors) {
        pin(w);
        weights[kHeld] = _mm512_loadu_si512(w + 64 * kHeld);
      }
      each<kVectors>([&](auto v) INTACT_INLINE_BODY {
        sums.at[r][v] = _mm512_dpbusd_epi32(sums.at[r][v], four, weights[v]);
      });
    });
    w += 64 * kVectors;
    fetch.next += fetch.bytes;
    k += 4;
  }

  // Two steps at a time: one alone leaves ports idle.
  INTACT_INLINE void pairs(Sums<kRows, kVectors>& sums) {
    while (k + 8 <= end) {
      step(sums);
      step(sums);
    }
    if (k < end) step(sums);
  }

  INTACT_INLINE void rest(Sums<kRows, kVectors>& sums) {
    while (k < end) step(sums);
  }

  INTACT_INLINE void runs_from(int32_t first, Sums<kRows, kVectors>& sums) {
    for (int32_t run = first; run < s.counts[0]; ++run) {
      begin(run);
      pairs(sums);
    }
    sums.pin_all();
  }
};

// What an instance knows of its epilogue: nothing, which is any form by branches; or the form, and that
// nothing is added and zero point and `low` are 0, as behind most Relus. All forms of every tile made the
// library 0.6 MB larger. Branches between the products of short windows cost up to 15% (16 channels to 96).
enum class KnownForm { nothing, product, divided };

inline KnownForm known_form(const Epilogue& e) {
  if (e.zero_point != 0 || e.low != 0 || e.has_residual) return KnownForm::nothing;
  return e.divides ? KnownForm::divided : KnownForm::product;
}

// Does as finish_codes of x86_avx512_finish.h, cut into pieces that need few registers: all rows of one
// vector are scaled, then four vectors at a time are written, of one row or of several.
template <int kRows, int kVectors, KnownForm kKnown>
struct Codes {
  static constexpr bool kPlain = kKnown != KnownForm::nothing;
  static constexpr int kAtOnce = kVectors < 3 ? 4 / kVectors : 1;  // rows
  const GemmRows& t;
  const bool divides, has_residual;
  __m512i zero_point, low, high, order;
  __m512 residual_multiplier, residual_zero_point, high_inverse, low_inverse;
  __mmask64 mask;  // of the channels that exist
  __mmask16 last;  // in the last vector

  INTACT_INLINE Codes(const Epilogue& e, const GemmRows& rows)
      : t(rows),
        divides(kPlain ? kKnown != KnownForm::product : e.divides),
        has_residual(!kPlain && e.has_residual),
        zero_point(_mm512_set1_epi16(static_cast<int16_t>(e.zero_point))),
        low(_mm512_set1_epi8(static_cast<char>(e.low))),
        high(_mm512_set1_epi8(static_cast<char>(e.high))),
        order(_mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15)),
        residual_multiplier(_mm512_set1_ps(e.residual_multiplier)),
        residual_zero_point(_mm512_set1_ps(static_cast<float>(e.residual_zero_point))),
        high_inverse(_mm512_set1_ps(e.divisor.high)),
        low_inverse(_mm512_set1_ps(e.divisor.low)),
        mask(~0ull >> (64 - rows.channels)),
        last(static_cast<__mmask16>(mask >> kLanes * (kVectors - 1))) {}

  // By the scale of the output (base/divisor.h).
  INTACT_INLINE __m512 quotient(__m512 x) const {
    return _mm512_fmadd_ps(x, high_inverse, _mm512_mul_ps(x, low_inverse));
  }

  // Sums of vector v to floats, or to codes where nothing is added.
  template <int v>
  INTACT_INLINE void scale(Sums<kRows, kVectors>& sums) const {
    const __m512 m = _mm512_loadu_ps(t.multiplier + kLanes * v), b = _mm512_loadu_ps(t.bias + kLanes * v);
    const auto each_real = [&](const auto& code) INTACT_INLINE_BODY {
      each<kRows>([&](auto r) INTACT_INLINE_BODY {
        sums.at[r][v] = code(_mm512_add_ps(_mm512_mul_ps(_mm512_cvtepi32_ps(sums.at[r][v]), m), b));
        pin(sums.at[r][v]);
      });
    };
    if (has_residual) {
      each_real([](__m512 real) INTACT_INLINE_BODY { return _mm512_castps_si512(real); });
    } else if (divides) {
      each_real([&](__m512 real) INTACT_INLINE_BODY { return _mm512_cvtps_epi32(quotient(real)); });
    } else {
      each_real([](__m512 real) INTACT_INLINE_BODY { return _mm512_cvtps_epi32(real); });
    }
  }

  template <int v>
  INTACT_INLINE __m512i add(__m512i real, const uint8_t* residual) const {
    residual += kLanes * v;
    const __m128i bytes = v < kVectors - 1 ? _mm_loadu_si128(reinterpret_cast<const __m128i*>(residual))
                                           : _mm_maskz_loadu_epi8(last, residual);
    const __m512 branch = _mm512_sub_ps(_mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(bytes)), residual_zero_point);
    const __m512 sum = _mm512_add_ps(_mm512_castsi512_ps(real), _mm512_mul_ps(branch, residual_multiplier));
    return _mm512_cvtps_epi32(quotient(sum));
  }

  // Rows [r, r + kAtOnce) of the tile, as far as there are, where r is a multiple of that. Row r of the tile
  // is row `row` of all.
  template <int r>
  INTACT_INLINE void write(const Sums<kRows, kVectors>& sums, int row) const {
    if constexpr (r % kAtOnce == 0) {
      __m512i codes[4];
      each<4>([&](auto i) INTACT_INLINE_BODY {
        constexpr int beside = i / kVectors, v = i % kVectors;
        if constexpr (beside >= kAtOnce || r + beside >= kRows) {
          codes[i] = _mm512_setzero_si512();
        } else {
          codes[i] = sums.at[r + beside][v];
        }
      });
      if (has_residual) {
        each<4>([&](auto i) INTACT_INLINE_BODY {
          constexpr int beside = i / kVectors, v = i % kVectors;
          if constexpr (beside < kAtOnce && r + beside < kRows) {
            codes[i] = add<v>(codes[i], t.residual[row + beside] + t.residual_offset);
          }
        });
      }
      const __m512i bytes = packed(codes);
      each<kAtOnce>([&](auto beside) INTACT_INLINE_BODY {
        if constexpr (r + beside < kRows) store<beside>(bytes, t.y[row + beside] + t.y_offset);
      });
    }
  }

  // The bytes of four vectors behind one another.
  INTACT_INLINE __m512i packed(const __m512i (&codes)[4]) const {
    __m512i ab = _mm512_packs_epi32(codes[0], codes[1]), cd = _mm512_packs_epi32(codes[2], codes[3]);
    if constexpr (!kPlain) {
      ab = _mm512_adds_epi16(ab, zero_point);
      cd = _mm512_adds_epi16(cd, zero_point);
    }
    __m512i bytes = _mm512_packus_epi16(ab, cd);
    if constexpr (!kPlain) bytes = _mm512_max_epu8(bytes, low);
    return _mm512_permutexvar_epi32(order, _mm512_min_epu8(bytes, high));
  }

  // As wide as a row: what crosses a line takes longer.
  template <int beside>
  INTACT_INLINE void store(__m512i bytes, uint8_t* y) const {
    if constexpr (kVectors == 1) {
      _mm_mask_storeu_epi8(y, last, _mm512_extracti32x4_epi32(bytes, beside));
    } else if constexpr (kVectors == 2) {
      _mm256_mask_storeu_epi8(y, static_cast<__mmask32>(mask), _mm512_extracti64x4_epi64(bytes, beside));
    } else {
      _mm512_mask_storeu_epi8(y, mask, bytes);
    }
  }
};

// Sums and codes of rows [first, first + kRows).
template <int kRows, int kVectors>
void whole_tile(const GemmSteps& s, const GemmTile& t, const Epilogue& e, const GemmRows& rows, int first,
                Fetch fetch) {
  Sums<kRows, kVectors> sums;
  sums.start(t.correction);
  Products<kRows, kVectors>(s, t, first, fetch).runs_from(0, sums);
  const Codes<kRows, kVectors, KnownForm::nothing> codes(e, rows);
  each<kVectors>([&](auto v) INTACT_INLINE_BODY { codes.template scale<v>(sums); });
  each<kRows>([&](auto r) INTACT_INLINE_BODY { codes.template write<r>(sums, first + r); });
}

// The steps that the first run of a window has at least.
constexpr int kFewSteps = 3;

// The sums of rows [first, first + kRows), and between the first steps the codes of the rows before: products
// keep two ports busy, and epilogues use the others. Longer runs have five steps there: one branch for two of
// them, because one for each is slower by 4% (24 channels to 144, Zen 4).
template <int kRows, int kVectors, KnownForm kKnown>
INTACT_INLINE void half_tile(Products<kRows, kVectors> products, const Codes<kRows, kVectors, kKnown>& codes,
                             const GemmTile& t, Sums<kRows, kVectors>& sums, Sums<kRows, kVectors>& before,
                             int written) {
  sums.start(t.correction);
  products.begin(0);
  each<2>([&](auto half) INTACT_INLINE_BODY {
    products.step(sums);
    if constexpr (2 * half < kVectors) codes.template scale<2 * half>(before);
    if constexpr (2 * half + 1 < kVectors) codes.template scale<2 * half + 1>(before);
  });
  each<kRows>([&](auto r) INTACT_INLINE_BODY {
    if constexpr (r == 0) products.step(sums);
    if constexpr (r == 1) {
      if (products.k + 8 <= products.end) {
        products.step(sums);
        products.step(sums);
      }
    }
    codes.template write<r>(before, written + r);
  });
  products.rest(sums);
  products.runs_from(1, sums);
}

// As many rows as make an odd number of halves; returns how many.
template <int kRows, int kVectors, KnownForm kKnown>
int whole_halves(const GemmSteps& s, const GemmTile& t, const Epilogue& e, const GemmRows& rows,
                 Fetching& fetching) {
  if (t.rows < kRows) return 0;
  const Codes<kRows, kVectors, kKnown> codes(e, rows);
  Sums<kRows, kVectors> even, odd;
  even.start(t.correction);
  Products<kRows, kVectors>(s, t, 0, fetching.piece()).runs_from(0, even);
  int row = kRows;
  for (; row + 2 * kRows <= t.rows; row += 2 * kRows) {
    half_tile(Products<kRows, kVectors>(s, t, row, fetching.piece()), codes, t, odd, even, row - kRows);
    half_tile(Products<kRows, kVectors>(s, t, row + kRows, fetching.piece()), codes, t, even, odd, row);
  }
  each<kVectors>([&](auto v) INTACT_INLINE_BODY { codes.template scale<v>(even); });
  each<kRows>([&](auto r) INTACT_INLINE_BODY { codes.template write<r>(even, row - kRows + r); });
  return row;
}

}  // namespace
}  // namespace intact
