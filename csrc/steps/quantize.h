// float32 to codes and back, from any order of axes to any other: NCHW floats to NHWC codes and the like.
#pragma once

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

// The bytes of codes of 16 bits, less the least one.
struct SplitQuantizeSpec {
  View x, above, below;  // f32, u8; both lie alike
  float scale;  // > 0
  int32_t low, high;  // ends of the codes, less the zero point
};

struct DequantizeSpec {
  View x, y;  // u8, f32
  float scale;
  int32_t zero;
};

// All throw std::invalid_argument for what is unsafe to run (base/check.h). They take x and y as they lie.
std::unique_ptr<Step> make_quantize(const QuantizeOps& ops, const TransposeOps& transpose,
                                    const QuantizeSpec& spec);
std::unique_ptr<Step> make_split_quantize(const QuantizeOps& ops, const TransposeOps& transpose,
                                          const SplitQuantizeSpec& spec);
std::unique_ptr<Step> make_dequantize(const QuantizeOps& ops, const TransposeOps& transpose,
                                      const DequantizeSpec& spec);

}  // namespace intact
