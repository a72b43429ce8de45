// Histograms of whole tensors, added into 64-bit counters. May throw std::bad_alloc and nothing else.
#pragma once

#include "kernels/histogram/histogram.h"
#include "tensors/real.h"

namespace intact {

// Counts bins of 2^exponent into negative[bins] and positive[bins]; returns what one pass can tell besides.
ValueRange count_pow2(const HistogramOps& ops, const Source& x, size_t n, int exponent, uint32_t bins,
                      int threads, int64_t* negative, int64_t* positive);

void count_fixed(const HistogramOps& ops, const Source& x, size_t n, const FixedBins& bins, int threads,
                 int64_t* counts);

}  // namespace intact
