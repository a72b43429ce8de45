// Rows of bytes up to kInliers - 1, of which 16-bit sums hold many, and what a few bytes exceed that by:
// added to the sums step by step.
#pragma once

#include <array>
#include <bit>

#include "kernels/gemm/x86_avx2_words.h"

namespace intact {
namespace {

static_assert(256 - kInliers <= 128, "a pair of excesses fits 16 bits");

// For each set of 8: its members in order, a byte each, and anything behind.
consteval std::array<uint64_t, 256> make_members() {
  std::array<uint64_t, 256> found{};
  for (unsigned set = 0; set < 256; ++set) {
    int count = 0;
    for (unsigned i = 0; i < 8; ++i) {
      if ((set >> i & 1u) != 0) found[set] |= uint64_t{i} << (8 * count++);
    }
  }
  return found;
}
alignas(64) constexpr std::array<uint64_t, 256> kMembers = make_members();

// Splits bytes and lists outliers, without a branch on what they are.
class Splitter {
 public:
  static constexpr int kSteps = 8;  // at a time
  static constexpr int kMostEntries = 2 * kSteps;  // of these: above and below; and a store goes no further

  Splitter(const GemmCopy& copy, const GemmSplit& to)
      : lists_(to.outliers),
        at_(to.first),
        base_(_mm256_set1_epi8(static_cast<char>(copy.base))),
        has_base_(copy.base != 0) {}

  int32_t found() const { return at_; }

  void split_all(const uint8_t* from, int32_t step, int32_t row, uint8_t* to) {
    const __m256i x = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
    const __m256i above = _mm256_subs_epu8(x, base_), kept = inliers_of(above);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), kept);
    list(x, above, kept, 0xff, step, row);
  }

  void split_some(const uint8_t* from, int steps, int32_t step, int32_t row, uint8_t* to) {
    const __m256i some = _mm256_cmpgt_epi32(_mm256_set1_epi32(steps), lanes());
    const __m256i x = _mm256_maskload_epi32(reinterpret_cast<const int*>(from), some);
    const __m256i above = _mm256_subs_epu8(x, base_), kept = inliers_of(above);
    _mm256_maskstore_epi32(reinterpret_cast<int*>(to), some, kept);
    list(x, above, kept, (1u << steps) - 1, step, row);
  }

 private:
  static __m256i lanes() { return _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7); }
  static __m256i inliers_of(__m256i above) {
    return _mm256_min_epu8(above, _mm256_set1_epi8(static_cast<char>(kInliers - 1)));
  }

  void list(__m256i x, __m256i above, __m256i kept, unsigned wanted, int32_t step, int32_t row) {
    add(_mm256_sub_epi8(above, kept), 0x00010001, wanted, step, row);
    if (has_base_) add(_mm256_subs_epu8(base_, x), -1, wanted, step, row);
  }

  void add(__m256i excess, int32_t signs, unsigned wanted, int32_t step, int32_t row) {
    const __m256i none = _mm256_cmpeq_epi32(excess, _mm256_setzero_si256());
    const unsigned some = ~static_cast<unsigned>(_mm256_movemask_ps(_mm256_castsi256_ps(none))) & wanted;
    const __m128i members = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(&kMembers[some]));
    const __m256i order = _mm256_cvtepu8_epi32(members);
    store(lists_.bytes, _mm256_permutevar8x32_epi32(excess, order));
    store(lists_.steps, _mm256_add_epi32(order, _mm256_set1_epi32(step)));
    store(lists_.signs, _mm256_set1_epi32(signs));
    store(lists_.rows, _mm256_set1_epi32(row));
    at_ += std::popcount(some);
  }

  void store(int32_t* list, __m256i value) const {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(list + at_), value);
  }

  const GemmOutliers lists_;
  int32_t at_;
  const __m256i base_;
  const bool has_base_;
};

// Row after row within 8 steps, so that neighbours of the lists go to different sums.
inline int32_t split(const GemmCopy& c, const GemmSplit& to) {
  Splitter splitter(c, to);
  int32_t first = 0;
  for (int32_t run = 0; run < c.count; ++run) {
    const ptrdiff_t offset = c.x_offset + c.runs[2 * run];
    const int32_t end = first + c.runs[2 * run + 1];
    for (int32_t step = first; step < end; step += Splitter::kSteps) {
      if (splitter.found() + c.rows * Splitter::kMostEntries > to.most) return -1;
      const ptrdiff_t from = offset + 4 * (step - first), at = 4 * ptrdiff_t{step};
      const bool all = end - step >= Splitter::kSteps;
      for (int row = 0; row < c.rows; ++row) {
        uint8_t* const bytes = to.bytes + row * c.pitch + at;
        if (all) {
          splitter.split_all(c.x[row] + from, step, row, bytes);
        } else {
          splitter.split_some(c.x[row] + from, end - step, step, row, bytes);
        }
      }
    }
    first = end;
  }
  return splitter.found();
}

template <int kVectors>
inline void add_outliers(const GemmSteps& s, const GemmTile& t) {
  const GemmOutliers lists = *t.outliers;
  for (int32_t i = t.begin; i < t.end; ++i) {
    const __m256i bytes = _mm256_set1_epi32(lists.bytes[i]), signs = _mm256_set1_epi32(lists.signs[i]);
    const int8_t* const w = s.weights + ptrdiff_t{s.places[lists.steps[i]]} * 32 * kVectors;
    int32_t* const sums = t.sums + ptrdiff_t{lists.rows[i]} * 8 * kVectors;
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) {
      const __m256i weights = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(w + 32 * v));
      const __m256i more = _mm256_madd_epi16(_mm256_maddubs_epi16(bytes, weights), signs);
      auto* const to = reinterpret_cast<__m256i*>(sums + 8 * v);
      _mm256_store_si256(to, _mm256_add_epi32(_mm256_load_si256(to), more));
    }
  }
}

}  // namespace
}  // namespace intact
