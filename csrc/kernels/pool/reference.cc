// The meaning of the family, in the fewest lines.
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
    y[c] = to_byte(static_cast<float>(static_cast<int32_t>(sum)) * m.multiplier, m.grid);
  }
}

}  // namespace

const PoolOps pool_ref = {max, mean};

}  // namespace intact
