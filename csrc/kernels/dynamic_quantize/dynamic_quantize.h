// Codes by ranges that the values themselves have: numerics.quantize_dynamic (N68), normative.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/cpu.h"

namespace intact {

struct DynamicQuantizeOps {
  static constexpr const char* kFamily = "dynamic_quantize";
  // Blocks of a row of n elements; the last block may have fewer. One scale, and zero point, for each.
  void (*int8)(const float* x, size_t n, size_t block, int8_t* codes, float* scales);
  void (*uint8)(const float* x, size_t n, size_t block, uint8_t* codes, float* scales, uint8_t* zeros);
  // With the scale of more elements than these, which is a NaN where one of them is not finite.
  void (*int8_by)(const float* x, size_t n, float scale, int8_t* codes);
  void (*uint8_by)(const float* x, size_t n, float scale, uint8_t zero, uint8_t* codes);
};

#define INTACT_KERNEL(name, needs) extern const DynamicQuantizeOps name;
#include "kernels/dynamic_quantize/kernels.inc"
#undef INTACT_KERNEL

}  // namespace intact
