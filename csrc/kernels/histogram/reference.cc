// The meaning of the family, in the fewest lines.
#include <cmath>

#include "kernels/histogram/histogram.h"

namespace intact {
namespace {

void pow2(const float* x, size_t n, const Pow2Bins& bins, uint32_t* slot, ValueRange& range) {
  for (size_t i = 0; i < n; ++i) {
    if (std::isfinite(x[i])) {
      if (x[i] < range.min) range.min = x[i];
      if (x[i] > range.max) range.max = x[i];
    } else {
      ++range.nonfinite;
    }
    const float position = std::fabs(x[i]) * bins.first * bins.second;
    const uint32_t half = x[i] < 0.0f ? bins.bins : 0;
    const bool inside = position < static_cast<float>(bins.bins);  // false for NaN
    slot[i] = inside ? half + static_cast<uint32_t>(position) : 2 * bins.bins;
  }
}

void fixed(const float* x, size_t n, const FixedBins& bins, uint32_t* slot) {
  const float last = static_cast<float>(bins.bins - 1);
  for (size_t i = 0; i < n; ++i) {
    const float position = std::fabs(x[i]) / bins.width;
    const uint32_t inside = position < last ? static_cast<uint32_t>(position) : bins.bins - 1;
    slot[i] = std::isnan(x[i]) ? bins.bins : inside;
  }
}

}  // namespace

const HistogramOps histogram_ref = {pow2, fixed};

}  // namespace intact
