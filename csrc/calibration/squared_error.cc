#include "calibration/squared_error.h"

#include <algorithm>

#include "base/fp_env.h"

namespace intact {
namespace {

// ceil(x), at most `limit` away from 0. Without SSE4.1 std::ceil is a call.
inline int64_t ceil_within(double x, double limit) {
  const double bounded = std::min(std::max(x, -limit), limit);
  const int64_t whole = static_cast<int64_t>(bounded);
  return whole + (bounded > static_cast<double>(whole));
}

}  // namespace

void grid_gains(const BeyondSums& sums, const GridSteps& grid, const double* scale, size_t n, double* out) {
  ScopedFpEnv env;
  const double last = static_cast<double>(sums.bins);
  for (size_t c = 0; c < n; ++c) {
    const double s = scale[c];
    double number = 0, value = 0;
    for (size_t k = 0; k < grid.size; ++k) {
      // Bin i, whose middle is i + 0.5, lies beyond the points before it.
      const size_t i = static_cast<size_t>(static_cast<int64_t>(std::min(s * grid.halfway[k] + 0.5, last)));
      number += sums.number[i] * grid.squares[k];
      value += sums.value[i] * grid.steps[k];
    }
    out[c] = s * (s * number - 2 * value);
  }
}

void affine_gains(const BeyondSums& sums, int qmin, int qmax, const double* scale, const int32_t* zero_point,
                  size_t n, double* out) {
  ScopedFpEnv env;
  const int64_t half = static_cast<int64_t>(sums.bins / 2), all = 2 * half;
  const double limit = static_cast<double>(half + 1);
  for (size_t c = 0; c < n; ++c) {
    const double s = scale[c], z = zero_point[c];
    double number = 0, by_code = 0, value = 0;
    for (int code = qmin; code < qmax; ++code) {
      const double point = s * (code + 0.5 - z);
      // Both first bins stand at 0: a point above 0 has both of them before it, another one neither.
      int64_t i = ceil_within(point - 0.5, limit) + half;
      i = point > 0 ? std::max(i, half + 1) : std::min(i, half - 1);
      i = std::min(std::max<int64_t>(i, 0), all);
      number += sums.number[i];
      by_code += sums.number[i] * (2 * code + 1);
      value += sums.value[i];
    }
    const double first = s * (qmin - z);
    const double linear = first * sums.value[0] + s * value;
    out[c] = first * first * sums.number[0] + s * s * (by_code - 2 * z * number) - 2 * linear;
  }
}

}  // namespace intact
