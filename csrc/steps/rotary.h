// Rotary position embedding (N71).
#pragma once

#include <cstdint>
#include <memory>

#include "runtime/step.h"

namespace intact {

// Rows of x and y are tokens [sequences * tokens, heads * size], with neighbours side by side. The last token
// of sequence b has the position last[b], and the others count up to it. A position without a row of cosines
// fails the run.
struct RotarySpec {
  View x, y;  // f32
  View last;  // i32 or i64 [sequences]
  View cosines, sines;  // f32 [positions, pairs]
  int64_t heads;
  bool interleaved;  // pairs are neighbours
};

// Throws std::invalid_argument for a step that is unsafe to run (base/check.h).
std::unique_ptr<Step> make_rotary(const RotarySpec& spec);

}  // namespace intact
