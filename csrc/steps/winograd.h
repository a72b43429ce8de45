// A 3x3 convolution of stride 1 by Winograd's transforms (kernels/winograd), with the epilogues of all
// convolutions: the same bits as conv.h, with a quarter of the products.
#pragma once

#include "kernels/winograd/packed.h"
#include "steps/conv.h"

namespace intact {

// `conv` describes the convolution, but for its kernel and packed weights: strides and dilations are 1.
struct WinogradSpec {
  ConvSpec conv;
  const WinogradOps* kernel;
  int threads;  // that will share the work: it is cut into no fewer pieces, where it can be
};

// The shape of such a convolution, for the threads that share it.
struct WinogradWork {
  int64_t images, height, width;  // of the output
  int64_t in, out;
  int threads;
};

// Whether this is faster than make_conv with a kernel `direct`, by this kernel's costs. Tiles multiply
// bytes so fast that it never is.
bool winograd_pays(const WinogradOps& kernel, const GemmOps& direct, const WinogradWork& work);

// Throws std::invalid_argument for what run() could not do inside the views.
std::unique_ptr<Step> make_winograd(const WinogradSpec& spec);

}  // namespace intact
