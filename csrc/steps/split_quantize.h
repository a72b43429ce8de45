// float32 to codes of 16 bits, as a tensor of high and one of low bytes (N62).
// x and y may lie in any order of axes: NCHW floats become NHWC codes, and the like.
#pragma once

#include <cstdint>
#include <memory>

#include "base/byte_grid.h"
#include "kernels/quantize/quantize.h"
#include "kernels/transpose/transpose.h"
#include "runtime/step.h"

namespace intact {

// The two bytes of q - qmin, for codes q of 16 bits.
struct SplitQuantizeSpec {
  View x, above, below;  // f32; u8 high and low bytes, with the same strides
  float scale;  // > 0
  int32_t low, high;  // ends of the codes, less the zero point
};

// Throws std::invalid_argument for a step that is unsafe to run (base/check.h).
std::unique_ptr<Step> make_split_quantize(const QuantizeOps& ops, const TransposeOps& transpose,
                                          const SplitQuantizeSpec& spec);

}  // namespace intact
