// vpmaddwd on two taps of one channel, widened to 16 bits: exact for every byte and every weight. 8 channels
// a block, in their own order. Included by x86_avx2.cc only.
#pragma once

#include <immintrin.h>

#include <cstring>

#include "base/inline.h"
#include "kernels/depthwise/depthwise.h"

namespace intact {
namespace {
namespace pairs {

constexpr int kWidth = 8;

// Pairs of taps: two for each column of a kernel of three rows, so that neighbouring outputs share them; else
// all taps in a row.
int pairs_of(int kernel_h, int kernel_w) {
  return kernel_h == 3 ? 2 * kernel_w : (kernel_h * kernel_w + 1) / 2;
}

// The tap at a place of a pair: row * kernel_w + column, or -1.
int tap_at(int kernel_h, int kernel_w, int pair, int place) {
  if (kernel_h == 3) {
    const int row = pair % 2 * 2 + place;
    return row == 3 ? -1 : row * kernel_w + pair / 2;
  }
  const int tap = 2 * pair + place;
  return tap < kernel_h * kernel_w ? tap : -1;
}

size_t bytes_of_block(int pairs) { return static_cast<size_t>(kWidth) * (12 + 4 * pairs); }

size_t packed_bytes(const DepthwiseWeights& w) {
  const int blocks = (w.channels + kWidth - 1) / kWidth;
  return static_cast<size_t>(blocks) * bytes_of_block(pairs_of(w.kernel_h, w.kernel_w));
}

void pack(const DepthwiseWeights& w, uint8_t* packed) {
  const int pairs = pairs_of(w.kernel_h, w.kernel_w);
  for (int c = 0; c < w.channels; c += kWidth, packed += bytes_of_block(pairs)) {
    auto* correction = reinterpret_cast<int32_t*>(packed);
    auto* multiplier = reinterpret_cast<float*>(correction + kWidth);
    float* bias = multiplier + kWidth;
    auto* weight = reinterpret_cast<int16_t*>(bias + kWidth);
    for (int i = 0; i < kWidth; ++i) {
      const bool exists = c + i < w.channels;
      correction[i] = exists ? w.correction[c + i] : 0;
      multiplier[i] = exists ? w.multiplier[c + i] : 0;
      bias[i] = exists ? w.bias[c + i] : 0;
      for (int pair = 0; pair < pairs; ++pair) {
        for (int place = 0; place < 2; ++place) {
          const int tap = tap_at(w.kernel_h, w.kernel_w, pair, place);
          weight[(pair * kWidth + i) * 2 + place] =
              exists && tap >= 0 ? w.weight[tap * w.channels + c + i] : int16_t{0};
        }
      }
    }
  }
}

// What most layers end in has loops of its own.
enum class End { bytes, bytes_and_residual, any };

// kPlanes: 2 of codes of 16 bits, high bytes before low ones.
template <bool kTail, End kEnd, int kPlanes>
class Worker {
 public:
  Worker(const DepthwiseRow& d, const uint8_t* packed, int channel, int channels)
      : d_(d),
        x_(d.x + channel),
        y_(d.y + channel * (d.epilogue.floats ? 4 : 1)),
        residual_(d.residual == nullptr ? nullptr : d.residual + channel),
        correction_(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(packed))),
        multiplier_(_mm256_loadu_ps(reinterpret_cast<const float*>(packed) + kWidth)),
        bias_(_mm256_loadu_ps(reinterpret_cast<const float*>(packed) + 2 * kWidth)),
        zero_(_mm_set1_epi16(static_cast<int16_t>(d.epilogue.zero_point))),
        low_(_mm_set1_epi8(static_cast<char>(d.epilogue.low))),
        high_(_mm_set1_epi8(static_cast<char>(d.epilogue.high))),
        weight_(packed + 12 * kWidth),
        channels_(static_cast<size_t>(channels)) {}

  // Columns of three taps stay in registers for all outputs that read them.
  template <int kStride>
  INTACT_INLINE void three_by_three() {
    __m256i columns[3][kPlanes][2], weights[3][2];
    for (int i = 0; i < 6; ++i) weights[i / 2][i % 2] = weight(i);
    const uint8_t* x = x_;
    for (int i = 0; i < 3 - kStride; ++i, x += d_.x_column) column(x, columns[i]);
    const auto output = [&]<int kFirst>() __attribute__((always_inline)) {
#pragma GCC unroll 2
      for (int i = 3 - kStride; i < 3; ++i, x += d_.x_column) column(x, columns[(kFirst + i) % 3]);
      __m256i acc;
#pragma GCC unroll 2
      for (int plane = 0; plane < kPlanes; ++plane) {
        start(acc, plane);
#pragma GCC unroll 3
        for (int i = 0; i < 3; ++i) {
          const __m256i* taps = columns[(kFirst + i) % 3][plane];
          const __m256i upper = _mm256_madd_epi16(taps[0], weights[i][0]);
          acc = _mm256_add_epi32(acc, _mm256_add_epi32(upper, _mm256_madd_epi16(taps[1], weights[i][1])));
        }
      }
      finish(acc);
    };
    for (size_t p = 0; p < d_.pixels; ++p) {
      output.template operator()<0>();
      if (++p == d_.pixels) break;
      output.template operator()<kStride % 3>();
      if (++p == d_.pixels) break;
      output.template operator()<2 * kStride % 3>();
    }
  }

  void any(const ptrdiff_t* offsets, int pairs) {
    for (size_t p = 0; p < d_.pixels; ++p, x_ += d_.x_pixel) {
      __m256i acc;
      const uint8_t* x = x_;
      for (int plane = 0; plane < kPlanes; ++plane, x += d_.apart) {
        start(acc, plane);
        for (int i = 0; i < pairs; ++i) {
          const __m256i taps = pair(load(x + offsets[2 * i]), load(x + offsets[2 * i + 1]));
          acc = _mm256_add_epi32(acc, _mm256_madd_epi16(taps, weight(i)));
        }
      }
      finish(acc);
    }
  }

 private:
  static INTACT_INLINE __m128i load(const uint8_t* p) {
    return _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p));
  }

  static INTACT_INLINE __m256i pair(__m128i a, __m128i b) {
    return _mm256_cvtepu8_epi16(_mm_unpacklo_epi8(a, b));
  }

  INTACT_INLINE __m256i weight(int i) const {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(weight_) + i);
  }

  INTACT_INLINE void column(const uint8_t* x, __m256i (&taps)[kPlanes][2]) const {
#pragma GCC unroll 2
    for (int plane = 0; plane < kPlanes; ++plane, x += d_.apart) {
      taps[plane][0] = pair(load(x), load(x + d_.x_row));
      taps[plane][1] = _mm256_cvtepu8_epi32(load(x + 2 * d_.x_row));
    }
  }

  // The correction is part of the last plane's sums.
  INTACT_INLINE void start(__m256i& acc, int plane) const {
    if (kPlanes == 1) {
      acc = correction_;
    } else {
      acc = plane == 0 ? _mm256_setzero_si256() : _mm256_add_epi32(_mm256_slli_epi32(acc, 8), correction_);
    }
  }

  INTACT_INLINE void finish(__m256i acc) {
    __m256 v = _mm256_add_ps(_mm256_mul_ps(_mm256_cvtepi32_ps(acc), multiplier_), bias_);
    const Epilogue& e = d_.epilogue;
    if (kEnd == End::bytes_and_residual || (kEnd == End::any && residual_ != nullptr)) {
      const __m256i r =
          _mm256_sub_epi32(_mm256_cvtepu8_epi32(load(residual_)), _mm256_set1_epi32(e.residual_zero_point));
      v = _mm256_add_ps(v, _mm256_mul_ps(_mm256_cvtepi32_ps(r), _mm256_set1_ps(e.residual_multiplier)));
      residual_ += d_.residual_pixel;
    }
    if (kEnd == End::any && e.floats) {
      v = _mm256_min_ps(_mm256_max_ps(v, _mm256_set1_ps(e.real_low)), _mm256_set1_ps(e.real_high));
      store<32>(_mm256_castps_si256(v), channels_ * 4);
    } else {
      // What is too small for an integer becomes the smallest one, which is right; too large would too.
      if (kEnd == End::any) v = _mm256_min_ps(v, _mm256_set1_ps(1 << 16));
      const __m256i steps = _mm256_cvtps_epi32(v);
      __m128i words = _mm_packs_epi32(_mm256_castsi256_si128(steps), _mm256_extracti128_si256(steps, 1));
      words = _mm_adds_epi16(words, zero_);
      const __m128i bytes = _mm_min_epu8(_mm_max_epu8(_mm_packus_epi16(words, words), low_), high_);
      store<8>(_mm256_castsi128_si256(bytes), channels_);
    }
    y_ += d_.y_pixel;
  }

  template <size_t kBytes>
  INTACT_INLINE void store(__m256i v, size_t n) const {
    if (kTail) {
      alignas(32) uint8_t bytes[32];
      _mm256_store_si256(reinterpret_cast<__m256i*>(bytes), v);
      std::memcpy(y_, bytes, n);
    } else if (kBytes == 32) {
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(y_), v);
    } else {
      _mm_storel_epi64(reinterpret_cast<__m128i*>(y_), _mm256_castsi256_si128(v));
    }
  }

  const DepthwiseRow& d_;
  const uint8_t* x_;
  uint8_t* y_;
  const uint8_t* residual_;
  __m256i correction_;
  __m256 multiplier_, bias_;
  __m128i zero_, low_, high_;
  const uint8_t* weight_;
  size_t channels_;
};

template <bool kTail, End kEnd, int kPlanes = 1>
void work(const DepthwiseRow& d, const uint8_t* packed, int channel, const ptrdiff_t* offsets, int pairs) {
  Worker<kTail, kEnd, kPlanes> worker(d, packed, channel, kTail ? d.channels - channel : kWidth);
  const bool three = d.kernel_h == 3 && d.kernel_w == 3;
  if (three && d.x_pixel == d.x_column) return worker.template three_by_three<1>();
  if (three && d.x_pixel == 2 * d.x_column) return worker.template three_by_three<2>();
  worker.any(offsets, pairs);
}

template <bool kTail>
void work(const DepthwiseRow& d, const uint8_t* packed, int channel, const ptrdiff_t* offsets, int pairs) {
  if (d.joins) return work<kTail, End::any, 2>(d, packed, channel, offsets, pairs);
  if (d.epilogue.floats || !d.epilogue.bounded)
    return work<kTail, End::any>(d, packed, channel, offsets, pairs);
  if (d.residual != nullptr) {
    return work<kTail, End::bytes_and_residual>(d, packed, channel, offsets, pairs);
  }
  work<kTail, End::bytes>(d, packed, channel, offsets, pairs);
}

// Channels [begin, end) of a row; `begin` is a multiple of kWidth.
void run(const DepthwiseRow& d, int begin, int end) {
  const int pairs = pairs_of(d.kernel_h, d.kernel_w);
  ptrdiff_t offsets[2 * kMostTaps];
  for (int i = 0; i < 2 * pairs; ++i) {
    const int tap = tap_at(d.kernel_h, d.kernel_w, i / 2, i % 2);
    offsets[i] = tap < 0 ? 0 : tap / d.kernel_w * d.x_row + tap % d.kernel_w * d.x_column;
  }
  const uint8_t* packed = d.packed + static_cast<size_t>(begin / kWidth) * bytes_of_block(pairs);
  for (int channel = begin; channel < end; channel += kWidth, packed += bytes_of_block(pairs)) {
    if (d.channels - channel >= kWidth) {
      work<false>(d, packed, channel, offsets, pairs);
    } else {
      work<true>(d, packed, channel, offsets, pairs);
    }
  }
}

}  // namespace pairs
}  // namespace
}  // namespace intact
