// Products of matrices of float32: numerics.float_product and numerics.float_conv (N51), normative. An output
// begins at its start, +0 where there is none, and takes fma(a[k], b[k], so far) for k ascending: one chain,
// never cut, so that kernels are wide over outputs alone and all give the same bits (of a NaN: that it is
// one). What was stored may be taken up again, so that who calls may cut k for the cache.
//
// The left side is rows by address, each of `runs` runs of elements: windows of an image are read where they
// lie, and a matrix is one run. The right side is packed, in panels of columns.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/cpu.h"

namespace intact {

// Steps, offsets and pitches in floats.
struct FloatGemm {
  const float* const* a;  // [rows]
  const ptrdiff_t* offsets;  // [runs]: where each begins, from a row's address
  size_t runs, length;  // k = runs * length
  ptrdiff_t step;  // from an element of a run to the next
  const float* b;  // the first panel, from the first k on
  size_t pitch;  // from panel to panel: all of k, times the panel's columns
  const float* start;  // [columns], or nullptr
  bool more;  // begin at what y holds, not at start
  float* const* y;  // [rows], of elements side by side
  size_t rows, columns;
};

// Pixels of a convolution of each channel by itself, channels side by side: y[p][c] begins at start[c] and
// takes x[p + offsets[t]][c] * w[t][c] for t ascending.
struct FloatDepthwise {
  const float* const* x;  // [pixels]
  const ptrdiff_t* offsets;  // [taps]
  size_t taps;
  const float* w;  // [taps][channels]
  const float* start;  // [channels], or nullptr
  float* const* y;  // [pixels]
  size_t pixels, channels;
};

// Pixels of one filter over lines of pixels side by side: y[p] begins at start and takes
// x[offsets[t] + p] * w[t * step] for t ascending.
struct FloatFilter {
  const float* x;
  const ptrdiff_t* offsets;  // [taps]
  size_t taps;
  const float* w;
  size_t step;
  float start;
  float* y;
  size_t pixels;
};

struct FloatGemmOps {
  static constexpr const char* kFamily = "float_gemm";
  size_t rows, panel;  // of a whole tile; columns of a panel
  // b[k * k_step + column * column_step] as panels [columns / panel, rounded up][k][panel], zeros behind.
  void (*pack)(const float* b, ptrdiff_t k_step, ptrdiff_t column_step, size_t k, size_t columns,
               float* packed);
  void (*multiply)(const FloatGemm& g);
  void (*depthwise)(const FloatDepthwise& d);
  void (*filter)(const FloatFilter& f);
};

#define INTACT_KERNEL(name, needs) extern const FloatGemmOps name;
#include "kernels/float_gemm/kernels.inc"
#undef INTACT_KERNEL

}  // namespace intact
