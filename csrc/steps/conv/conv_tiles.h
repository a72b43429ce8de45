// A convolution by a kernel of tiles (kernels/gemm/tiles.h). Made by make_conv.
#pragma once

#include "steps/conv.h"

namespace intact {

// Throws std::invalid_argument for a step that is unsafe to run (base/check.h).
std::unique_ptr<Step> make_tiled_conv(const ConvSpec& spec);

}  // namespace intact
