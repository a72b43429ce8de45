// The slot of each value in a histogram, see numerics.count_pow2 and numerics.count_fixed, normative.
// The caller adds one to the counter of each slot; the last slot collects what is not counted.
// Dense, n >= 0, no alignment needed, no overlap. bins <= kMaxBins.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/cpu.h"

namespace intact {

constexpr uint32_t kMaxBins = 1u << 20;

// Bin floor(|x| * first * second), two exact products with powers of two because one may not be a
// float32. Slots: bins of values that are not negative, then bins of negative ones, then the rest.
struct Pow2Bins {
  float first, second;
  uint32_t bins;
};

// Bin min(floor(|x| / width), bins - 1); slot `bins` takes NaN.
struct FixedBins {
  float width;
  uint32_t bins;
};

// Further results of pow2: the range of the finite values, and the number of others.
struct ValueRange {
  float min, max;
  uint64_t nonfinite;
};

struct HistogramOps {
  static constexpr const char* kFamily = "histogram";
  void (*pow2)(const float* x, size_t n, const Pow2Bins& bins, uint32_t* slot, ValueRange& range);
  void (*fixed)(const float* x, size_t n, const FixedBins& bins, uint32_t* slot);
};

#define INTACT_KERNEL(name, needs) extern const HistogramOps name;
#include "kernels/histogram/kernels.inc"
#undef INTACT_KERNEL

}  // namespace intact
