// One byte in the halo of an image, which convolutions read in place of padding.
#pragma once

#include <cstdint>
#include <memory>

#include "runtime/step.h"

namespace intact {

// Sets every byte of the halo of an image.
struct HaloSpec {
  View image;
  uint8_t value;
};

// Throws std::invalid_argument for a step that is unsafe to run (base/check.h).
std::unique_ptr<Step> make_halo(const HaloSpec& spec);

}  // namespace intact
