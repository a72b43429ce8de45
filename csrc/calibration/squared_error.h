// Squared errors of a tensor's ranges, from prefix sums of its histogram: candidates of
// calib/range_search.py.
#pragma once

#include <cstddef>
#include <cstdint>

namespace intact {

// Sums over the bins from i on, for i = 0..bins: counts, and counts times the middles of their bins.
struct BeyondSums {
  const double* number;
  const double* value;
  size_t bins;
};

// The numbers of a symmetric grid after its first: for each, the point half-way to the one before, and how
// much larger it and its square are.
struct GridSteps {
  const double* halfway;
  const double* steps;
  const double* squares;
  size_t size;
};

// Both write one summed squared error for each of `n` candidates, in bin widths squared, less the sum of
// squares that none of them changes. Integer grids: sums of whole and half numbers, exact below 2^52.
void grid_gains(const BeyondSums& sums, const GridSteps& grid, const double* scale, size_t n, double* out);

// `sums.bins` counts the bins of both signs, negative ones first; codes are qmin..qmax.
void affine_gains(const BeyondSums& sums, int qmin, int qmax, const double* scale, const int32_t* zero_point,
                  size_t n, double* out);

}  // namespace intact
