// The meaning of the family, in the fewest lines.
#include "kernels/moments/moments.h"

namespace intact {
namespace {

void add_products(const double* x, size_t rows, size_t columns, size_t stride, double* products) {
  for (size_t r = 0; r < rows; ++r, x += stride) {
    for (size_t i = 0; i < columns; ++i) {
      for (size_t j = i; j < columns; ++j) products[i * stride + j] += x[i] * x[j];
    }
  }
}

}  // namespace

const MomentsOps moments_ref = {add_products};

}  // namespace intact
