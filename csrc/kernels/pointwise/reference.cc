// The meaning of the family, in the fewest lines.
#include "kernels/pointwise/pointwise.h"

namespace intact {
namespace {

float value(uint8_t byte, Operand from) { return static_cast<float>(byte - from.zero) * from.multiplier; }

void add(const uint8_t* a, Operand from_a, const uint8_t* b, Operand from_b, size_t n,
         const Divisor& divisor, const ByteGrid& grid, uint8_t* y) {
  for (size_t i = 0; i < n; ++i) {
    y[i] = to_byte((value(a[i], from_a) + value(b[i], from_b)) / divisor.scale, grid);
  }
}

void rescale(const uint8_t* x, Operand from, size_t n, const ByteGrid& grid, uint8_t* y) {
  for (size_t i = 0; i < n; ++i) y[i] = to_byte(value(x[i], from), grid);
}

void lookup(const uint8_t* x, const uint8_t* table, size_t n, uint8_t* y) {
  for (size_t i = 0; i < n; ++i) y[i] = table[x[i]];
}

}  // namespace

const PointwiseOps pointwise_ref = {add, rescale, lookup};

}  // namespace intact
