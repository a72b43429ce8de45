// A convolution by a kernel of tiles (kernels/gemm/tiles.h). Made by make_conv.
#pragma once

#include "steps/conv.h"

namespace intact {

// Throws std::invalid_argument for what run() could not do inside the views.
std::unique_ptr<Step> make_tiled_conv(const ConvSpec& spec);

}  // namespace intact
