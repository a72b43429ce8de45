// One byte in every place of a view, without its halo: the constant part of a pad.
#pragma once

#include <cstdint>
#include <memory>

#include "runtime/step.h"

namespace intact {

// Sets every byte of y.
struct FillSpec {
  View y;
  uint8_t value;
};

// Throws std::invalid_argument for a step that is unsafe to run (base/check.h).
std::unique_ptr<Step> make_fill(const FillSpec& spec);

}  // namespace intact
