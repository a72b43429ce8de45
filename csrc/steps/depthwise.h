// Depthwise convolution of images in NHWC.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <vector>

#include "kernels/depthwise/depthwise.h"
#include "runtime/step.h"
#include "steps/common/epilogue.h"

namespace intact {

// A layer, whatever the size of its images: packed weights, and its epilogue, settled. Steps of all sizes
// share one.
struct DepthwiseLayer {
  // `weights`: with the largest byte of x, and whether codes have 16 bits; the epilogue's constants are those
  // of `spec`. `pixels` neighbours of a row are computed as one with more channels (joined_pixels). Throws
  // std::invalid_argument for weights or an epilogue that no kernel has.
  DepthwiseLayer(const DepthwiseOps& ops_, DepthwiseWeights weights, EpilogueSpec spec, size_t pixels);
  DepthwiseLayer(const DepthwiseLayer&) = delete;
  DepthwiseLayer& operator=(const DepthwiseLayer&) = delete;

  struct alignas(64) Line {
    uint8_t bytes[64];
  };
  const DepthwiseOps& ops;
  EpilogueSpec epilogue;  // without its residual, of which each step has a view
  std::unique_ptr<const FunctionCells> cells;  // nullptr where the kernel uses none
  std::vector<Line> packed;
  int kernel_h, kernel_w, channels, high;
  bool is_wide;  // codes have 16 bits
  size_t pixels;
};

struct DepthwiseSpec {
  View x, y;                      // (n, h, w, c); x of bytes, y of bytes or float32
  std::array<int, 2> strides, dilations;
  std::array<int, 2> pads;  // top, left; padding on all sides is read from the halo of x
  std::optional<View> low;  // for codes of 16 bits, which are 256 * x + low; lies as x does
  std::optional<View> residual;  // bytes, sizes of y
};

// How many neighbouring pixels are treated as one with more channels.
size_t joined_pixels(const DepthwiseOps& ops, const DepthwiseSpec& spec);

// `layer`: for so many joined pixels. Throws std::invalid_argument for a step that is unsafe to run
// (base/check.h).
std::unique_ptr<Step> make_depthwise(std::shared_ptr<const DepthwiseLayer> layer, const DepthwiseSpec& spec);

}  // namespace intact
