// 16 words or 8 sums at a time; Dot is how an instruction set sums products of neighbouring words.
#pragma once

#include <immintrin.h>

#include <cstring>

#include "kernels/winograd/loops.h"

namespace intact::winograd {
namespace {

template <class Dot>
struct Avx2 {
  static constexpr int kWords = 16, kSums = 8;

  struct Words {
    __m256i v;
    static Words load(const uint8_t* p) {
      return {_mm256_cvtepu8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)))};
    }
    static Words load_signed(const int8_t* p) {
      return {_mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)))};
    }
    static Words zero() { return {_mm256_setzero_si256()}; }
    void store(int16_t* p) const { _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), v); }
    template <int kBits>
    Words times() const {
      return {_mm256_slli_epi16(v, kBits)};
    }
    friend Words operator+(Words a, Words b) { return {_mm256_add_epi16(a.v, b.v)}; }
    friend Words operator-(Words a, Words b) { return {_mm256_sub_epi16(a.v, b.v)}; }
  };

  struct Sums {
    __m256i v;
    static Sums zero() { return {_mm256_setzero_si256()}; }
    static Sums load(const int32_t* p) { return {_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))}; }
    void store(int32_t* p) const { _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), v); }
    template <int kBits>
    Sums times() const {
      return {_mm256_slli_epi32(v, kBits)};
    }
    template <int kBits>
    Sums down() const {
      return {_mm256_srai_epi32(v, kBits)};
    }
    Sums times9th() const { return {_mm256_mullo_epi32(v, _mm256_set1_epi32(kNinth))}; }
    friend Sums operator+(Sums a, Sums b) { return {_mm256_add_epi32(a.v, b.v)}; }
    friend Sums operator-(Sums a, Sums b) { return {_mm256_sub_epi32(a.v, b.v)}; }
  };

  using Pairs = __m256i;
  static Pairs pairs(const int16_t* p) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)); }
  static Pairs pair(const int16_t* p) {
    int32_t two;
    std::memcpy(&two, p, 4);
    return _mm256_set1_epi32(two);
  }
  static Sums dot(Sums s, Pairs a, Pairs b) { return {Dot::add(s.v, a, b)}; }
};

template <class Set>
void multiply(const WinogradProduct& p) {
  if (p.width == Set::kSums) return multiply_rows<Set, 1, 6>(p);
  return multiply_rows<Set, 2, 6>(p);
}

template <class Dot>
constexpr WinogradOps ops_of(const GemmOps* gemm, const WinogradCost& cost) {
  using Set = Avx2<Dot>;
  return {gemm, 2, cost, transform_input<Set>, transform_weights<Set>, multiply<Set>, transform_output<Set>};
}

}  // namespace
}  // namespace intact::winograd
