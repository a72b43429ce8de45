// Functions of one or two bytes at a time, over n neighbours; y may be an input.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/byte_grid.h"
#include "base/divisor.h"
#include "base/cpu.h"

namespace intact {

// The value of a byte: fl32((byte - zero) * multiplier).
struct Operand {
  int32_t zero;
  float multiplier;
};

struct PointwiseOps {
  static constexpr const char* kFamily = "pointwise";
  // y = to_byte((value(a) + value(b)) / scale): N26.
  void (*add)(const uint8_t* a, Operand from_a, const uint8_t* b, Operand from_b, size_t n,
              const Divisor& divisor, const ByteGrid& grid, uint8_t* y);
  // y = to_byte(value(x)), of a multiplier in steps of y: N28.
  void (*rescale)(const uint8_t* x, Operand from, size_t n, const ByteGrid& grid, uint8_t* y);
  // y = table[x], 256 entries.
  void (*lookup)(const uint8_t* x, const uint8_t* table, size_t n, uint8_t* y);
};

#define INTACT_KERNEL(name, needs) extern const PointwiseOps name;
#include "kernels/pointwise/kernels.inc"
#undef INTACT_KERNEL

}  // namespace intact
