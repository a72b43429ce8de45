// float32 to codes (N11).
// x and y may lie in any order of axes: NCHW floats become NHWC codes, and the like.
#pragma once

#include <cstdint>
#include <memory>

#include "base/byte_grid.h"
#include "kernels/quantize/quantize.h"
#include "kernels/transpose/transpose.h"
#include "runtime/step.h"

namespace intact {

struct QuantizeSpec {
  View x, y;    // f32, u8
  float scale;  // > 0
  ByteGrid grid;
};

// Throws std::invalid_argument for a step that is unsafe to run (base/check.h).
std::unique_ptr<Step> make_quantize(const QuantizeOps& ops, const TransposeOps& transpose,
                                    const QuantizeSpec& spec);

}  // namespace intact
