// A 3x3 convolution of stride 1 by Winograd's transforms (kernels/winograd), with any epilogue. The bits
// equal those of conv.h, with a quarter of the products.
#pragma once

#include "kernels/winograd/packed.h"
#include "steps/conv.h"

namespace intact {

// A layer, whatever the size of its images, as ConvLayer is one. `weights`: the bytes of pack_winograd.
// Throws std::invalid_argument for weights that nobody packs so, or another epilogue.
struct WinogradLayer : SettledEpilogue {
  WinogradLayer(const WinogradOps& kernel, const PackedWeights& weights, const EpilogueSpec& epilogue);

  const WinogradOps* kernel;
  WinogradPacked packed;
  PanelConstants constants;
  std::shared_ptr<const void> owner;

 private:
  WinogradLayer(const WinogradOps& kernel, WinogradPacked read, const PackedWeights& weights,
                const EpilogueSpec& epilogue);
};

// Strides and dilations are 1. The work is cut into at least as many pieces as there are threads if possible.
struct WinogradSpec : ConvViews {
  std::shared_ptr<const WinogradLayer> layer;
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
