// Products of rows with the weights that each of them chooses: a mixture of experts.
#pragma once

#include <memory>

#include "steps/conv.h"

namespace intact {

// Rows [1, 1, m, in], each multiplied by the weights of as many groups as there are rows of y for it, those
// that the index chooses: y [1, 1, n, out / groups]. Negative indices count from the end; a run with one out
// of range fails.
struct ChosenLinearSpec {
  ConvSpec conv;  // 1x1 weights in groups, which all read the same channels
  View index;  // [n], i32 or i64
};

// Throws std::invalid_argument for a step that is unsafe to run (base/check.h), and for kernels of tiles.
std::unique_ptr<Step> make_chosen_linear(const ChosenLinearSpec& spec);

}  // namespace intact
