// The meaning of the family, in the fewest lines.
#include <cmath>

#include "kernels/quantize/quantize.h"

namespace intact {
namespace {

void quantize(const float* x, size_t n, const Grid& grid, Codes codes, uint8_t* q) {
  for (size_t i = 0; i < n; ++i) {
    const size_t p = grid.shared ? 0 : i;
    float steps = std::nearbyint(x[i] / grid.scale[p]);
    if (!(steps > grid.low[p])) steps = grid.low[p];  // true for NaN too
    if (steps > grid.high[p]) steps = grid.high[p];
    q[i] = static_cast<uint8_t>(static_cast<int32_t>(steps - grid.low[p]) + codes.qmin);
  }
}

void dequantize(const uint8_t* q, size_t n, const Grid& grid, Codes codes, float* y) {
  for (size_t i = 0; i < n; ++i) {
    const size_t p = grid.shared ? 0 : i;
    const int32_t code = codes.is_signed ? static_cast<int8_t>(q[i]) : q[i];
    y[i] = (static_cast<float>(code - codes.qmin) + grid.low[p]) * grid.scale[p];
  }
}

void split(const float* x, size_t n, const Grid& grid, uint8_t* above, uint8_t* below) {
  for (size_t i = 0; i < n; ++i) {
    float steps = std::nearbyint(x[i] / *grid.scale);
    if (!(steps > *grid.low)) steps = *grid.low;
    if (steps > *grid.high) steps = *grid.high;
    const auto code = static_cast<uint32_t>(steps - *grid.low);
    above[i] = static_cast<uint8_t>(code >> 8);
    below[i] = static_cast<uint8_t>(code);
  }
}

}  // namespace

const QuantizeOps quantize_ref = {quantize, dequantize, split};

}  // namespace intact
