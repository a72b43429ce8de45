// A convolution or a product with a constant matrix (an image of 1 x M pixels), and its epilogue: N19 to N25.
// The input is read through its halo; the output may be any strided image, so that a transposed convolution
// is a few of these, each writing the pixels of one phase.
#pragma once

#include <array>
#include <memory>

#include "kernels/gemm/packed.h"
#include "runtime/step.h"
#include "steps/epilogue.h"

namespace intact {

// Which loop is outside: over the weights (all rows pass a part of them before the next), or over the rows. The
// bits are the same.
enum class ConvOrder : uint8_t { by_size, weights, rows };

struct ConvSpec {
  View x, y;  // (n, h, w, c): bytes; bytes or float32
  const GemmOps* kernel;
  const uint8_t* packed;  // pack_gemm's bytes for this kernel
  size_t packed_bytes;
  std::shared_ptr<const void> owner;  // keeps them alive
  std::array<int64_t, 2> strides{1, 1}, dilations{1, 1};
  std::array<int64_t, 2> origin{0, 0};  // input pixel under the first tap of output pixel (0, 0); -1: pad 1
  EpilogueSpec epilogue;
  int threads = 1;  // that will share the work
  ConvOrder order = ConvOrder::by_size;
  bool gathered = false;  // tiles are copied together even where they could be loaded as the image lies
};

// Throws std::invalid_argument unless images, weights of so many channels, and epilogue fit each other.
// `high` is the largest byte of x for which the weights were packed.
void check_conv(const ConvSpec& spec, int64_t in, int64_t out, int32_t high);

// Throws std::invalid_argument for what run() could not do inside the views.
std::unique_ptr<Step> make_conv(const ConvSpec& spec);

}  // namespace intact
