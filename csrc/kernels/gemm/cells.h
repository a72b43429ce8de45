// Cheap bounds of a smooth function's codes (SmoothFunction), for epilogues that compute codes of a function:
// where both bounds round to the same byte it is the right one, and where they do not, the function itself
// has to say. One in a thousand bytes needs that.
//
// Such a function is its ramp, max(x, 0), and a rest that depends on the magnitude of x alone and dies out:
// f(x) = max(x, 0) + f(-|x|). Where the rest has an end, up to there it is one quadratic, in steps of the
// output's scale. Else the magnitude is cut into 32 cells of equal width, and in each the rest is a quartic
// of the distance from the cell's middle, in cells.
//
// Channels with factors and offsets of their own share the bounds of the one with the largest factor, and
// scale and move them.
#pragma once

#include <memory>
#include <span>

#include "kernels/gemm/gemm.h"

namespace intact {

constexpr int kCells = 32, kCellTerms = 5;
constexpr float kMostCell = 31.49f;  // magnitudes are held so near: the rest is as good as 0 beyond

struct FunctionCells {
  alignas(64) float terms[kCellTerms][kCells];  // [power][cell]; they give the lower bound
  float end;  // 0: none; else x is in units, not in cells, and the first cell's terms are the quadratic
  float width;  // from the lower bound to the upper one
  float per_unit;  // cells, a power of two
  float top;  // x in cells is held so low: beyond, codes do not change any more
  float ramp;  // steps in a cell of the ramp
  // Channels have their own S or O, and lower bounds: this one * (S * per_factor) + (O * per_scale - doubt).
  bool each;
  float per_factor, per_scale, doubt;
};

// nullptr where bounds of such an epilogue are not close enough to save time. `bias`: the largest magnitude.
// `factors` and `offsets`: of channels; empty where the epilogue's serve all.
std::unique_ptr<const FunctionCells> make_cells(const Epilogue& epilogue, double bias,
                                                std::span<const float> factors = {},
                                                std::span<const float> offsets = {});

}  // namespace intact
