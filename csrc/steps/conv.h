// A convolution or a product with a constant matrix (an image of 1 x M pixels), and its epilogue: N19 to N25.
// The input is read through its halo; the output may be any strided image, so that a transposed convolution
// is a few of these, each writing the pixels of one phase.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <vector>

#include "kernels/gemm/packed.h"
#include "runtime/step.h"

namespace intact {

struct ConvSpec {
  View x, y;  // (n, h, w, c): bytes; bytes or float32
  std::optional<View> residual;  // bytes, sizes of y
  const GemmOps* kernel;
  const uint8_t* packed;  // pack_gemm's bytes for this kernel
  size_t packed_bytes;
  std::shared_ptr<const void> owner;  // keeps them alive
  std::vector<int32_t> correction;  // [c of y]: added to the sums
  std::vector<float> multiplier, bias;  // [c of y]
  std::vector<float> factors;  // [c of y], behind the epilogue's function; empty: none
  std::vector<float> slopes;  // [c of y], of what is below 0, without a function; empty: none
  std::array<int64_t, 2> strides{1, 1}, dilations{1, 1};
  std::array<int64_t, 2> origin{0, 0};  // input pixel under the first tap of output pixel (0, 0); -1: pad 1
  GemmEpilogue epilogue;  // `bounded` and `has_residual` are found here
};

// Throws std::invalid_argument for what run() could not do inside the views.
std::unique_ptr<Step> make_conv(const ConvSpec& spec);

}  // namespace intact
