// The meaning of the family, in the fewest lines.
#include "kernels/matmul/words.h"

namespace intact {
namespace {

constexpr size_t kColumns = 8;

void tile(const void* a, const int32_t* a_terms, size_t rows, const void* b, const int32_t* b_terms, size_t k,
          int32_t* sums) {
  const auto* left = static_cast<const int16_t*>(a);
  const auto* right = static_cast<const int16_t*>(b);
  for (size_t i = 0; i < rows; ++i) {
    for (size_t j = 0; j < kColumns; ++j) {
      uint32_t acc = static_cast<uint32_t>(a_terms[i]) + static_cast<uint32_t>(b_terms[j]);
      for (size_t p = 0; p < k; ++p) {
        acc += static_cast<uint32_t>(left[i * k + p] * right[p * kColumns + j]);
      }
      sums[i * kColumns + j] = static_cast<int32_t>(acc);
    }
  }
}

void codes(const int32_t* sums, size_t n, float multiplier, const Divisor& d, const ByteGrid& grid,
           uint8_t* y) {
  for (size_t i = 0; i < n; ++i) {
    const float real = static_cast<float>(sums[i]) * multiplier + 0.0f;
    y[i] = to_byte(real / d.scale, grid);
  }
}

void floats(const int32_t* sums, size_t n, const MatMulReals& r, float* y) {
  for (size_t i = 0; i < n; ++i) {
    const float v = (static_cast<float>(sums[i]) * r.multiplier + 0.0f) * r.gain / r.quotient;
    y[i] = std::min(std::max(v, r.low), r.high);
  }
}

}  // namespace

const MatMulOps matmul_ref = {
    4, kColumns, 1, sizeof(int16_t), pack_words_a<1>, pack_words_b<1, kColumns>, tile, codes, floats};

}  // namespace intact
