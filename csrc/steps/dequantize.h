// Codes to float32 (N12).
// x and y may lie in any order of axes: NCHW floats become NHWC codes, and the like.
#pragma once

#include <cstdint>
#include <memory>

#include "base/byte_grid.h"
#include "kernels/quantize/quantize.h"
#include "kernels/transpose/transpose.h"
#include "runtime/step.h"

namespace intact {

struct DequantizeSpec {
  View x, y;  // u8, f32
  float scale;
  int32_t zero;
};

// Throws std::invalid_argument for a step that is unsafe to run (base/check.h).
std::unique_ptr<Step> make_dequantize(const QuantizeOps& ops, const TransposeOps& transpose,
                                      const DequantizeSpec& spec);

}  // namespace intact
