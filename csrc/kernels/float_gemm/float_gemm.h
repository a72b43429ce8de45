// Products of float32 matrices: numerics.float_product and numerics.float_conv (N51), normative. An output
// begins at its start, or +0, and becomes fma(a[k], b[k], y) for each k, ascending. Kernels vectorize over
// outputs only, never over k, so that all give the same bits (of a NaN only that it is one). A sum that was
// stored can be continued, so that callers may divide k for the cache.
//
// The left side has an address per row, and rows consist of runs of elements. So windows are read from the
// image itself, and the row of a matrix is one run. The right side is packed in panels of columns.
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
  // From a k of b to the next; 0: the columns of a panel. A matrix whose rows fill whole registers, and whose
  // pitch is a panel's columns, is read where it lies.
  size_t down = 0;
};

// Pixels of a depthwise convolution with dense channels: y[p][c] begins at start[c] and adds
// x[p + offsets[t]][c] * w[t][c], t ascending.
struct FloatDepthwise {
  const float* const* x;  // [pixels]
  const ptrdiff_t* offsets;  // [taps]
  size_t taps;
  const float* w;  // [taps][channels]
  const float* start;  // [channels], or nullptr
  float* const* y;  // [pixels]
  size_t pixels, channels;
};

// Pixels of one filter over lines of contiguous pixels: y[p] begins at start and adds
// x[offsets[t] + p] * w[t * step], t ascending.
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
