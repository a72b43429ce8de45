// Vectors of neighbouring channels; the last one overlaps the one before it.
#include "kernels/pool/pool.h"

#if INTACT_ARCH_X86
#include "base/x86_avx2_bytes.h"

namespace intact {
namespace {

template <int kVectors>
inline void max_vectors(const uint8_t* x, const PoolWindow& w, uint8_t* y) {
  __m256i most[kVectors];
#pragma GCC unroll 4
  for (int v = 0; v < kVectors; ++v) most[v] = _mm256_setzero_si256();
  for (size_t t = 0; t < w.taps; ++t) {
    const auto* from = reinterpret_cast<const __m256i*>(x + w.offsets[t]);
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) most[v] = _mm256_max_epu8(most[v], _mm256_loadu_si256(from + v));
  }
#pragma GCC unroll 4
  for (int v = 0; v < kVectors; ++v) _mm256_storeu_si256(reinterpret_cast<__m256i*>(y) + v, most[v]);
}

inline void max_8(const uint8_t* x, const PoolWindow& w, uint8_t* y) {
  __m128i most = _mm_setzero_si128();
  for (size_t t = 0; t < w.taps; ++t) {
    most = _mm_max_epu8(most, _mm_loadl_epi64(reinterpret_cast<const __m128i*>(x + w.offsets[t])));
  }
  _mm_storel_epi64(reinterpret_cast<__m128i*>(y), most);
}

inline void max_1(const uint8_t* x, const PoolWindow& w, uint8_t* y) {
  uint8_t most = 0;
  for (size_t t = 0; t < w.taps; ++t) most = x[w.offsets[t]] > most ? x[w.offsets[t]] : most;
  *y = most;
}

void max(const PoolWindow& w, size_t pixels, ptrdiff_t x_pixel, uint8_t* y, ptrdiff_t y_pixel) {
  const uint8_t* x = w.x;
  for (size_t p = 0; p < pixels; ++p, x += x_pixel, y += y_pixel) {
    size_t c = 0;
    for (; c + 128 <= w.channels; c += 128) max_vectors<4>(x + c, w, y + c);
    for (; c + 64 <= w.channels; c += 64) max_vectors<2>(x + c, w, y + c);
    for (; c + 32 <= w.channels; c += 32) max_vectors<1>(x + c, w, y + c);
    if (c < w.channels && w.channels >= 32) {
      max_vectors<1>(x + w.channels - 32, w, y + w.channels - 32);
      continue;
    }
    for (; c + 8 <= w.channels; c += 8) max_8(x + c, w, y + c);
    for (; c < w.channels; ++c) max_1(x + c, w, y + c);
  }
}

// 16 channels: sums of 256 taps fit 16 bits, so these are widened as seldom.
inline void mean_16(const uint8_t* x, const PoolWindow& w, const PoolMean& m, const Bytes8& bytes,
                    uint8_t* y) {
  const int32_t start = static_cast<int32_t>(-static_cast<int64_t>(m.zero) * static_cast<int64_t>(w.taps));
  __m256i low = _mm256_set1_epi32(start), high = low;
  for (size_t t = 0; t < w.taps;) {
    __m256i sums = _mm256_setzero_si256();
    for (const size_t end = w.taps - t > 256 ? t + 256 : w.taps; t < end; ++t) {
      const auto* from = reinterpret_cast<const __m128i*>(x + w.offsets[t]);
      sums = _mm256_add_epi16(sums, _mm256_cvtepu8_epi16(_mm_loadu_si128(from)));
    }
    low = _mm256_add_epi32(low, _mm256_cvtepu16_epi32(_mm256_castsi256_si128(sums)));
    high = _mm256_add_epi32(high, _mm256_cvtepu16_epi32(_mm256_extracti128_si256(sums, 1)));
  }
  const __m256 gain = _mm256_set1_ps(m.multiplier);
  const __m256 a = _mm256_mul_ps(_mm256_cvtepi32_ps(low), gain);
  const __m256 b = _mm256_mul_ps(_mm256_cvtepi32_ps(high), gain);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(y), bytes.of(a, b));
}

inline void mean_1(const uint8_t* x, const PoolWindow& w, const PoolMean& m, uint8_t* y) {
  int64_t sum = -static_cast<int64_t>(m.zero) * static_cast<int64_t>(w.taps);
  for (size_t t = 0; t < w.taps; ++t) sum += x[w.offsets[t]];
  *y = to_byte(static_cast<float>(static_cast<int32_t>(sum)) * m.multiplier, m.grid);
}

void mean(const PoolWindow& w, const PoolMean& m, uint8_t* y) {
  const Bytes8 bytes(m.grid);
  size_t c = 0;
  for (; c + 16 <= w.channels; c += 16) mean_16(w.x + c, w, m, bytes, y + c);
  if (c < w.channels && w.channels >= 16) {
    c = w.channels - 16;
    mean_16(w.x + c, w, m, bytes, y + c);
    return;
  }
  for (; c < w.channels; ++c) mean_1(w.x + c, w, m, y + c);
}

}  // namespace

const PoolOps pool_avx2 = {max, mean};

}  // namespace intact
#endif
