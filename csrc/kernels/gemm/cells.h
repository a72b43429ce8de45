// Cheap bounds of the codes of a smooth function (SmoothFunction), for epilogues that compute codes of a
// function. If both bounds round to the same byte, that is the code. If not, the function itself is
// evaluated, which about one in a thousand bytes needs.
//
// Such a function is a ramp and a rest that depends on |x| only and vanishes: f(x) = max(x, 0) + f(-|x|). If
// the rest has an end, it is one quadratic up to there, in steps of the output's scale. Otherwise the range
// of |x| has 32 cells of equal width. In each cell the rest is a quartic of the distance from the middle, in
// cells.
//
// If channels have factors and offsets of their own, they share the bounds of the channel with the largest
// factor, and scale and shift them.
#pragma once

#include <memory>
#include <span>

#include "kernels/gemm/gemm.h"

namespace intact {

constexpr int kCells = 32, kCellTerms = 5;
constexpr float kMostCell = 31.49f;  // magnitudes are clamped to this: beyond it the rest is 0 in effect

struct FunctionCells {
  alignas(64) float terms[kCellTerms][kCells];  // [power][cell], of the lower bound
  float end;  // 0: none; otherwise x is not in cells, and the terms of the first cell are the quadratic
  float width;  // from the lower bound to the upper bound
  float per_unit;  // cells, a power of two
  float top;  // x in cells is limited to this: beyond, codes are constant
  float ramp;  // steps in a cell of the ramp
  // Channels have their own S or O, and lower bounds: this one * (S * per_factor) + (O * per_scale - doubt).
  bool each;
  float per_factor, per_scale, doubt;
};

// Returns nullptr if the bounds for such an epilogue are too wide to save time. `bias`: the largest
// magnitude of a bias, or of 3 B G + 5 H where there are gains. `factors` and `offsets`: one per channel;
// empty if those of the epilogue serve all channels.
std::unique_ptr<const FunctionCells> make_cells(const Epilogue& epilogue, double bias,
                                                std::span<const float> factors = {},
                                                std::span<const float> offsets = {});

}  // namespace intact
