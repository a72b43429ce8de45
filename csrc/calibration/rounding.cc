#include "calibration/rounding.h"

#include <algorithm>
#include <vector>

#include "base/fp_env.h"
#include "base/tuning.h"

namespace intact {
namespace {

using namespace tuning::tensors;

// The nearest whole number, ties to even, of |x| < 2^51. Without SSE4.1 std::nearbyint is a call.
inline double nearest(double x) {
  constexpr double kMagic = 6755399441055744.0;  // 1.5 * 2^52: its last bit counts ones
  return (x + kMagic) - kMagic;
}

}  // namespace

void moments(const MomentsOps& ops, const float* x, const ColumnBlock& block, double* sums,
             double* products) {
  ScopedFpEnv env;
  const size_t size = block.size, stride = (size + kMomentsStep - 1) / kMomentsStep * kMomentsStep;
  std::vector<double> wide(kRowsAtOnce * stride), sum(stride * stride);
  for (size_t g = 0; g < block.groups; ++g, sums += size, products += size * size) {
    const float* from = x + g * block.rows * block.columns + block.first;
    std::fill_n(sums, size, 0.0);
    std::fill(sum.begin(), sum.end(), 0.0);
    for (size_t first = 0; first < block.rows; first += kRowsAtOnce) {
      const size_t count = std::min(kRowsAtOnce, block.rows - first);
      ops.widen(from + first * block.columns, count, block.columns, size, stride, wide.data(), sums);
      ops.add_products(wide.data(), count, size, stride, sum.data());
    }
    for (size_t i = 0; i < size; ++i) {
      for (size_t j = i; j < size; ++j) products[i * size + j] = products[j * size + i] = sum[i * stride + j];
    }
  }
}

void unit_factor(double* matrix, size_t size) {
  ScopedFpEnv env;
  for (size_t j = size; j-- > 0;) {
    const double* const row = matrix + j * size;  // up to the diagonal: the column above it is the same
    const double pivot = row[j];
    for (size_t i = 0; i < j; ++i) {
      const double factor = row[i] / pivot;
      double* const to = matrix + i * size;
      for (size_t k = 0; k <= i; ++k) to[k] -= factor * row[k];
      to[j] = factor;
    }
  }
  for (size_t i = 0; i < size; ++i) {
    std::fill_n(matrix + i * size, i, 0.0);
    matrix[i * size + i] = 1.0;
  }
}

void round_together(const GridRows& grid, const double* factor, size_t count, size_t size, double* points) {
  ScopedFpEnv env;
  std::vector<double> wanted(size);
  for (size_t row = 0; row < count; ++row) {
    const double* const given = grid.rows + row * size;
    const double* const steps = grid.steps + row * size;
    double* const found = points + row * size;
    std::copy_n(given, size, wanted.data());
    for (size_t i = 0; i < size; ++i) {
      found[i] = nearest(std::min(std::max(wanted[i] / steps[i], grid.low), grid.high)) * steps[i];
      const double lost = given[i] - found[i];
      const double* const spread = factor + i * size;
      for (size_t k = i + 1; k < size; ++k) wanted[k] += lost * spread[k];
    }
  }
}

void quadratic_forms(const double* rows, const double* matrix, size_t count, size_t size, double* space,
                     double* out) {
  ScopedFpEnv env;
  for (size_t row = 0; row < count; ++row, rows += size) {
    std::fill_n(space, size, 0.0);
    for (size_t i = 0; i < size; ++i) {
      const double* const line = matrix + i * size;
      for (size_t k = 0; k < size; ++k) space[k] += rows[i] * line[k];
    }
    double sum = 0;
    for (size_t k = 0; k < size; ++k) sum += space[k] * rows[k];
    out[row] = sum;
  }
}

}  // namespace intact
