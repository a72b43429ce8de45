// Maximum and mean over windows of images in NHWC (N27). Windows are clipped to the image, so that padding
// is not read.
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "kernels/float_steps/float_steps.h"
#include "kernels/pool/pool.h"
#include "runtime/step.h"

namespace intact {

struct PoolSpec {
  View x, y;  // (n, h, w, c): u8, or f32
  std::array<int64_t, 2> kernel, strides, dilations;
  std::array<int64_t, 4> pads;  // top, left, bottom, right
};

// A mean divides by the number of taps within the image or, with include_pads, within the image and its
// padding.
struct MeanSpec {
  bool include_pads;
  float x_scale, y_scale;
  int32_t zero;
  ByteGrid grid;
};

// All throw std::invalid_argument for a step that is unsafe to run (base/check.h).
std::unique_ptr<Step> make_float_max_pool(const FloatOps& ops, const PoolSpec& spec);
std::unique_ptr<Step> make_max_pool(const PoolOps& ops, const PoolSpec& spec);
std::unique_ptr<Step> make_mean_pool(const PoolOps& ops, const PoolSpec& spec, const MeanSpec& mean);

}  // namespace intact
