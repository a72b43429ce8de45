// Products of rows with the weights that each of them chooses: a mixture of experts.
#pragma once

#include <memory>

#include "steps/conv.h"

namespace intact {

// x is [1, 1, m, in], y is [1, 1, n, out / groups], and n is a multiple of m. Row i of y is row i / (n / m)
// of x times the weights of group index[i]. Negative indices count from the end. An index out of range fails
// the run.
struct ChosenLinearSpec {
  ConvSpec conv;  // 1x1 weights in groups, which all read the same channels
  View index;  // [n], i32 or i64
};

// Throws std::invalid_argument for a step that is unsafe to run (base/check.h), and for kernels of tiles.
std::unique_ptr<Step> make_chosen_linear(const ChosenLinearSpec& spec);

}  // namespace intact
