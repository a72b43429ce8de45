// A convolution or a product with a constant matrix (an image of 1 x M pixels), and its epilogue: N19 to N25.
// The input is read through its halo; the output may be any strided image, so that a transposed convolution
// is a few of these, each writing the pixels of one phase.
#pragma once

#include <array>
#include <memory>
#include <optional>

#include "kernels/gemm/packed.h"
#include "runtime/step.h"
#include "steps/common/epilogue.h"

namespace intact {

struct ConvSpec {
  View x, y;  // (n, h, w, c): x of bytes, y of bytes or float32
  std::optional<View> low;  // for codes of 16 bits, which are 256 * x + low; lies as x does
  int shift = 0;  // of the joined sums of 16-bit codes (join_sums in gemm.h)
  std::vector<int32_t> high_correction;  // [c of y], for the sums of x; the epilogue's is for those of `low`
  const GemmOps* kernel;
  const uint8_t* packed;  // pack_gemm's bytes for this kernel
  size_t packed_bytes;
  std::shared_ptr<const void> owner;  // keeps them alive
  std::array<int64_t, 2> strides{1, 1}, dilations{1, 1};
  std::array<int64_t, 2> origin{0, 0};  // input pixel under the first tap of output pixel (0, 0); -1: pad 1
  EpilogueSpec epilogue;
  int threads = 1;  // that share the work
  int32_t zero = 0;  // the byte of x around which most of its bytes are expected
};

// Throws std::invalid_argument unless images, weights of so many channels, and epilogue fit each other.
// `high` is the largest byte of x for which the weights were packed.
void check_conv(const ConvSpec& spec, int64_t in, int64_t out, int32_t high);

// Adds the half by which joined sums are rounded to the corrections of low bytes.
inline void round_low_sums(ConvSpec& spec) {
  const uint32_t half = 1u << spec.shift >> 1;
  for (int32_t& c : spec.epilogue.correction) c = static_cast<int32_t>(static_cast<uint32_t>(c) + half);
}

// Channels in a register of the narrowest kernels.
constexpr int kNarrowest = 8;

// Returns whether so many pixels, bytes of a window and output channels of a group fill the registers of a
// kernel. A tile has 16 rows and 64 bytes of depth, and takes as long where few of them are used. So
// does a vector of 16 channels where there are 8.
bool fills(const GemmOps& kernel, int64_t pixels, int64_t window, int64_t channels);

// Throws std::invalid_argument for a step that is unsafe to run (base/check.h).
std::unique_ptr<Step> make_conv(const ConvSpec& spec);

}  // namespace intact
