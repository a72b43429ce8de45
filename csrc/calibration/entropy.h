// Divergences of clipped histograms: candidates of calib/entropy.py.
#pragma once

#include <cstddef>
#include <cstdint>

namespace intact {

// The natural logarithm of a positive, finite, normal number, with the same bits on every machine; off by
// less than 2^-51 of it, or of 1 where it is smaller.
double log_of(double x);

// A histogram in bins of one width.
struct Bins {
  const double* counts;
  const double* mass;    // sums of the counts of the first i bins, i = 0..size
  const double* filled;  // how many of these are not empty
  size_t size;
};

// KL(P || Q) of clipping behind each of `n` candidates, numbers of bins 1..size, until a bound says that
// those which are left lie more than `sure` above the least; inf for these, and where Q is 0 and P is not.
// Bounds ascend.
void entropy_divergences(const Bins& bins, size_t levels, double sure, const int64_t* candidates,
                         const double* bounds, size_t n, double* out);

}  // namespace intact
