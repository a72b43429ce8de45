// The meaning of the family, in the fewest lines.
#include <cmath>
#include <initializer_list>

#include "kernels/pool/pool.h"

namespace intact {
namespace {

void max(const PoolWindow& w, size_t pixels, ptrdiff_t x_pixel, uint8_t* y, ptrdiff_t y_pixel) {
  for (size_t p = 0; p < pixels; ++p) {
    const uint8_t* x = w.x + static_cast<ptrdiff_t>(p) * x_pixel;
    for (size_t c = 0; c < w.channels; ++c) {
      uint8_t most = 0;
      for (size_t t = 0; t < w.taps; ++t) {
        const uint8_t v = x[w.offsets[t] + static_cast<ptrdiff_t>(c)];
        most = v > most ? v : most;
      }
      y[static_cast<ptrdiff_t>(p) * y_pixel + static_cast<ptrdiff_t>(c)] = most;
    }
  }
}

void mean(const PoolWindow& w, const PoolMean& m, uint8_t* y) {
  for (size_t c = 0; c < w.channels; ++c) {
    int64_t sum = -static_cast<int64_t>(m.zero) * static_cast<int64_t>(w.taps);
    for (size_t t = 0; t < w.taps; ++t) sum += w.x[w.offsets[t] + static_cast<ptrdiff_t>(c)];
    y[c] = to_byte(m.steps(static_cast<float>(static_cast<int32_t>(sum))), m.grid);
  }
}

// Returns whether both have the same byte for every sum near a boundary between two codes; elsewhere they
// have it.
bool has_bytes_of(const PoolMean& product, const PoolMean& mean, int64_t count) {
  constexpr double kError = 0x1p-20;  // of both forms, relatively: each rounds up to four times
  constexpr double kMost = 64;  // sums to try at a boundary
  const double unit = double{mean.multiplier} / static_cast<double>(count) / double{mean.scale};
  const double end = 255.0 * static_cast<double>(count);
  const ByteGrid& g = mean.grid;
  for (int32_t step = g.low - g.zero - 1; step <= g.high - g.zero; ++step) {
    const double at = (step + 0.5) / unit, doubt = std::fabs(at) * kError + 1;
    if (at - doubt > end || at + doubt < -end) continue;
    if (!(doubt < kMost)) return false;
    for (double sum = std::floor(at - doubt); sum <= at + doubt; ++sum) {
      const auto value = static_cast<float>(sum);
      if (to_byte(product.steps(value), g) != to_byte(mean.steps(value), g)) return false;
    }
  }
  return true;
}

}  // namespace

const PoolOps pool_ref = {max, mean};

PoolMean pool_mean(float x_scale, int64_t count, float y_scale, int32_t zero, const ByteGrid& grid) {
  const auto taps = static_cast<float>(count);
  const PoolMean mean{zero, x_scale, grid, true, taps, y_scale};
  const double exact = double{x_scale} / (static_cast<double>(count) * double{y_scale});
  PoolMean product{zero, static_cast<float>(exact), grid, false, taps, y_scale};
  const float nearest = product.multiplier;
  for (const float multiplier :
       {nearest, std::nextafter(nearest, 0.0f), std::nextafter(nearest, 2 * nearest)}) {
    product.multiplier = multiplier;
    if (has_bytes_of(product, mean, count)) return product;
  }
  return mean;
}

}  // namespace intact
