// 64 bytes a step, the tail masked. Unpacking within 128-bit lanes widens bytes, packing restores their
// order.
#include "kernels/pointwise/pointwise.h"

#if INTACT_ARCH_X86
#include <immintrin.h>

namespace intact {
namespace {

constexpr size_t kStep = 64;

inline __mmask64 first(size_t n) { return n >= kStep ? ~__mmask64{0} : (__mmask64{1} << n) - 1; }

class Lanes {
 public:
  explicit Lanes(Operand o) : zero_(_mm512_set1_epi32(o.zero)), multiplier_(_mm512_set1_ps(o.multiplier)) {}

  void steps(__m512i x, __m512 (&v)[4]) const {
    const __m512i none = _mm512_setzero_si512();
    const __m512i low = _mm512_unpacklo_epi8(x, none), high = _mm512_unpackhi_epi8(x, none);
    v[0] = real(_mm512_unpacklo_epi16(low, none));
    v[1] = real(_mm512_unpackhi_epi16(low, none));
    v[2] = real(_mm512_unpacklo_epi16(high, none));
    v[3] = real(_mm512_unpackhi_epi16(high, none));
  }

 private:
  __m512 real(__m512i bytes) const {
    return _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_sub_epi32(bytes, zero_)), multiplier_);
  }

  __m512i zero_;
  __m512 multiplier_;
};

// Steps must not be NaN. What is too small for an integer becomes the smallest one, which is right; what is
// too large is bounded before it is rounded.
class Bytes {
 public:
  explicit Bytes(const ByteGrid& g)
      : most_(_mm512_set1_ps(static_cast<float>(g.high - g.zero))),
        zero_(_mm512_set1_epi16(static_cast<int16_t>(g.zero))),
        low_(_mm512_set1_epi8(static_cast<char>(g.low))) {}

  __m512i of(const __m512 (&v)[4]) const {
    return _mm512_max_epu8(_mm512_packus_epi16(words(v[0], v[1]), words(v[2], v[3])), low_);
  }

 private:
  __m512i words(__m512 a, __m512 b) const {
    return _mm512_adds_epi16(_mm512_packs_epi32(rounded(a), rounded(b)), zero_);
  }
  __m512i rounded(__m512 v) const { return _mm512_cvtps_epi32(_mm512_min_ps(v, most_)); }

  __m512 most_;
  __m512i zero_, low_;
};

void add(const uint8_t* a, Operand from_a, const uint8_t* b, Operand from_b, size_t n, const ByteGrid& grid,
         uint8_t* y) {
  const Lanes left(from_a), right(from_b);
  const Bytes bytes(grid);
  for (size_t i = 0; i < n; i += kStep) {
    const __mmask64 m = first(n - i);
    __m512 u[4], v[4];
    left.steps(_mm512_maskz_loadu_epi8(m, a + i), u);
    right.steps(_mm512_maskz_loadu_epi8(m, b + i), v);
    for (int k = 0; k < 4; ++k) v[k] = _mm512_add_ps(u[k], v[k]);
    _mm512_mask_storeu_epi8(y + i, m, bytes.of(v));
  }
}

void rescale(const uint8_t* x, Operand from, size_t n, const ByteGrid& grid, uint8_t* y) {
  const Lanes lanes(from);
  const Bytes bytes(grid);
  for (size_t i = 0; i < n; i += kStep) {
    const __mmask64 m = first(n - i);
    __m512 v[4];
    lanes.steps(_mm512_maskz_loadu_epi8(m, x + i), v);
    _mm512_mask_storeu_epi8(y + i, m, bytes.of(v));
  }
}

// 256 bytes as 128 words in four registers; a word holds the entries of an even index and of the next one.
class Table {
 public:
  explicit Table(const uint8_t* table) {
    for (int k = 0; k < 4; ++k) words_[k] = _mm512_loadu_si512(table + 64 * k);
  }

  // Words below 256 to the entries that they name.
  __m512i of(__m512i index) const {
    const __m512i word = _mm512_srli_epi16(index, 1);
    const __m512i below = _mm512_permutex2var_epi16(words_[0], word, words_[1]);
    const __m512i above = _mm512_permutex2var_epi16(words_[2], word, words_[3]);
    const __mmask32 upper = _mm512_movepi16_mask(_mm512_slli_epi16(index, 8));
    const __m512i both = _mm512_mask_mov_epi16(below, upper, above);
    const __m512i shift = _mm512_slli_epi16(_mm512_and_si512(index, _mm512_set1_epi16(1)), 3);
    return _mm512_and_si512(_mm512_srlv_epi16(both, shift), _mm512_set1_epi16(255));
  }

 private:
  __m512i words_[4];
};

void lookup(const uint8_t* x, const uint8_t* table, size_t n, uint8_t* y) {
  const Table entries(table);
  for (size_t i = 0; i < n; i += kStep) {
    const __mmask64 m = first(n - i);
    const __m512i v = _mm512_maskz_loadu_epi8(m, x + i);
    const __m512i even = entries.of(_mm512_and_si512(v, _mm512_set1_epi16(255)));
    const __m512i odd = entries.of(_mm512_srli_epi16(v, 8));
    _mm512_mask_storeu_epi8(y + i, m, _mm512_or_si512(even, _mm512_slli_epi16(odd, 8)));
  }
}

}  // namespace

const PointwiseOps pointwise_avx512 = {add, rescale, lookup};

}  // namespace intact
#endif
