// The meaning of the family, in the fewest lines.
#include "kernels/moments/moments.h"

namespace intact {
namespace {

void widen(const float* x, size_t rows, size_t columns, size_t size, size_t stride, double* to,
           double* sums) {
  for (size_t r = 0; r < rows; ++r) {
    for (size_t i = 0; i < size; ++i) sums[i] += to[r * stride + i] = x[r * columns + i];
  }
}

void add_products(const double* x, size_t rows, size_t columns, size_t stride, double* products) {
  for (size_t r = 0; r < rows; ++r, x += stride) {
    for (size_t i = 0; i < columns; ++i) {
      for (size_t j = i; j < columns; ++j) products[i * stride + j] += x[i] * x[j];
    }
  }
}

}  // namespace

const MomentsOps moments_ref = {widen, add_products};

}  // namespace intact
