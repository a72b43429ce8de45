// 32 words or 16 sums at a time; vpdpwssd: two products and their sum in one instruction.
#include "kernels/winograd/loops.h"

#if INTACT_ARCH_X86
#include <immintrin.h>

#include <cstring>

namespace intact {
namespace {

struct Avx512 {
  static constexpr int kWords = 32, kSums = 16;

  struct Words {
    __m512i v;
    static Words load(const uint8_t* p) {
      return {_mm512_cvtepu8_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)))};
    }
    static Words load_signed(const int8_t* p) {
      return {_mm512_cvtepi8_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)))};
    }
    static Words zero() { return {_mm512_setzero_si512()}; }
    void store(int16_t* p) const { _mm512_storeu_si512(p, v); }
    template <int kBits>
    Words times() const {
      return {_mm512_slli_epi16(v, kBits)};
    }
    friend Words operator+(Words a, Words b) { return {_mm512_add_epi16(a.v, b.v)}; }
    friend Words operator-(Words a, Words b) { return {_mm512_sub_epi16(a.v, b.v)}; }
  };

  struct Sums {
    __m512i v;
    static Sums zero() { return {_mm512_setzero_si512()}; }
    static Sums load(const int32_t* p) { return {_mm512_loadu_si512(p)}; }
    void store(int32_t* p) const { _mm512_storeu_si512(p, v); }
    template <int kBits>
    Sums times() const {
      return {_mm512_slli_epi32(v, kBits)};
    }
    template <int kBits>
    Sums down() const {
      return {_mm512_srai_epi32(v, kBits)};
    }
    Sums times9th() const { return {_mm512_mullo_epi32(v, _mm512_set1_epi32(winograd::kNinth))}; }
    friend Sums operator+(Sums a, Sums b) { return {_mm512_add_epi32(a.v, b.v)}; }
    friend Sums operator-(Sums a, Sums b) { return {_mm512_sub_epi32(a.v, b.v)}; }
  };

  using Pairs = __m512i;
  static Pairs pairs(const int16_t* p) { return _mm512_loadu_si512(p); }
  static Pairs pair(const int16_t* p) {
    int32_t two;
    std::memcpy(&two, p, 4);
    return _mm512_set1_epi32(two);
  }
  static Sums dot(Sums s, Pairs a, Pairs b) { return {_mm512_dpwssd_epi32(s.v, a, b)}; }
};

void multiply(const WinogradProduct& p) {
  switch (p.width / Avx512::kSums) {
    case 1: return winograd::multiply_rows<Avx512, 1, 12>(p);
    case 2: return winograd::multiply_rows<Avx512, 2, 12>(p);
    case 3: return winograd::multiply_rows<Avx512, 3, 9>(p);
    default: return winograd::multiply_rows<Avx512, 4, 6>(p);
  }
}

}  // namespace

const WinogradOps winograd_avx512vnni = {&gemm_avx512vnni,
                                         4,
                                         {2, 670, 800},
                                         winograd::transform_input<Avx512>,
                                         winograd::transform_weights<Avx512>,
                                         multiply,
                                         winograd::transform_output<Avx512>};

}  // namespace intact
#endif
