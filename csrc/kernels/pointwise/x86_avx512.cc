// A table of 256 bytes fits four registers.
#include "kernels/pointwise/generic.h"

#if INTACT_ARCH_X86
#include "base/vector/avx512.h"

namespace intact {
namespace {

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
  pointwise_loops::for_each_bytes<Avx512>(n, y, [&](size_t i, const auto& load) INTACT_INLINE_BODY {
    const __m512i v = load(x + i);
    const __m512i even = entries.of(_mm512_and_si512(v, _mm512_set1_epi16(255)));
    const __m512i odd = entries.of(_mm512_srli_epi16(v, 8));
    return _mm512_or_si512(even, _mm512_slli_epi16(odd, 8));
  });
}

}  // namespace

const PointwiseOps pointwise_avx512 = pointwise_loops::ops_of<Avx512>(lookup);

}  // namespace intact
#endif
