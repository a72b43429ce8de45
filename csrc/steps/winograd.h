// A 3x3 convolution of stride 1 by Winograd's transforms (kernels/winograd), with any epilogue. The bits
// equal those of conv.h, with a quarter of the products.
#pragma once

#include "kernels/winograd/packed.h"
#include "steps/conv.h"

namespace intact {

// `conv` describes the convolution, without its kernel; strides and dilations are 1, and `packed` are the
// bytes of pack_winograd.
struct WinogradSpec {
  ConvSpec conv;
  const WinogradOps* kernel;
  int threads;  // that share the work, which is cut into at least as many pieces if possible
};

// The size of such a convolution, and the threads that share it.
struct WinogradWork {
  int64_t images, height, width;  // of the output
  int64_t in, out;
  int threads;
};

// Returns whether this is faster than make_conv with the kernel `direct`, by the costs of `kernel`. It
// never is faster than a kernel of tiles, which multiplies bytes faster than it transforms them.
bool winograd_pays(const WinogradOps& kernel, const GemmOps& direct, const WinogradWork& work);

// Throws std::invalid_argument for a step that is unsafe to run (base/check.h).
std::unique_ptr<Step> make_winograd(const WinogradSpec& spec);

}  // namespace intact
