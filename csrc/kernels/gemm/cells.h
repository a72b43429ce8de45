// Cheap bounds of a smooth function's codes (SmoothFunction), for epilogues that compute codes of a function:
// where both bounds round to the same byte it is the right one, and where they do not, the function itself
// has to say. One in a few thousand bytes needs that.
//
// x is cut into cells of equal width, 31 around a middle. In each the function, in steps of the output's
// scale, is a cubic of x in cells.
#pragma once

#include <memory>

#include "kernels/gemm/gemm.h"

namespace intact {

constexpr float kMostCell = 15.49f;  // x is held so near the middle: beyond, codes do not change any more

struct FunctionCells {
  alignas(64) float terms[4][32];  // [power][cell modulo 32]; they give the lower bound
  float width;  // from it to the upper one
  float per_unit, middle;
};

// nullptr where bounds of such an epilogue are not close enough to save time. `bias`: the largest magnitude.
std::unique_ptr<const FunctionCells> make_cells(const Epilogue& epilogue, double bias);

}  // namespace intact
