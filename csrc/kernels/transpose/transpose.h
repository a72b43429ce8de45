// y[c][r] = x[r][c]: how tensors change between ONNX's order and NHWC. Pitches are in bytes; neighbouring
// elements of a row are dense on both sides. No overlap; 4-byte elements are aligned.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/cpu.h"

namespace intact {

struct TransposeOps {
  static constexpr const char* kFamily = "transpose";
  void (*bytes)(const uint8_t* x, ptrdiff_t x_pitch, size_t rows, size_t columns, uint8_t* y,
                ptrdiff_t y_pitch);
  void (*words)(const uint8_t* x, ptrdiff_t x_pitch, size_t rows, size_t columns, uint8_t* y,
                ptrdiff_t y_pitch);
};

#define INTACT_KERNEL(name, needs) extern const TransposeOps name;
#include "kernels/transpose/kernels.inc"
#undef INTACT_KERNEL

}  // namespace intact
