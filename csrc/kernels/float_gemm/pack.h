// Panels of columns. Static: every instruction set has its own copy.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "kernels/float_gemm/float_gemm.h"

#if INTACT_ARCH_X86
#include <immintrin.h>
#endif

namespace intact {

// Columns that lie along k, as in a transposed matrix, four by four; returns how many k are done.
template <size_t panel>
static size_t turn_panel(const float* from, ptrdiff_t column_step, size_t k, float* packed) {
#if INTACT_ARCH_X86
  const size_t whole = k / 4 * 4;
  for (size_t j = 0; j < panel; j += 4) {
    const float* const line = from + static_cast<ptrdiff_t>(j) * column_step;
    for (size_t i = 0; i < whole; i += 4) {
      __m128 a = _mm_loadu_ps(line + i), b = _mm_loadu_ps(line + column_step + i),
             c = _mm_loadu_ps(line + 2 * column_step + i), d = _mm_loadu_ps(line + 3 * column_step + i);
      _MM_TRANSPOSE4_PS(a, b, c, d);
      float* const to = packed + i * panel + j;
      _mm_storeu_ps(to, a);
      _mm_storeu_ps(to + panel, b);
      _mm_storeu_ps(to + 2 * panel, c);
      _mm_storeu_ps(to + 3 * panel, d);
    }
  }
  return whole;
#else
  static_cast<void>(from), static_cast<void>(column_step), static_cast<void>(k), static_cast<void>(packed);
  return 0;
#endif
}

template <size_t panel>
static void pack_panels(const float* b, ptrdiff_t k_step, ptrdiff_t column_step, size_t k, size_t columns,
                        float* packed) {
  for (size_t first = 0; first < columns; first += panel, packed += k * panel) {
    const size_t width = std::min(panel, columns - first);
    const float* from = b + static_cast<ptrdiff_t>(first) * column_step;
    if (width < panel) std::fill_n(packed, k * panel, 0.0f);
    if (column_step == 1 && width == panel) {  // a copy of known size is no call
      for (size_t i = 0; i < k; ++i, from += k_step)
        std::memcpy(packed + i * panel, from, panel * sizeof *from);
      continue;
    }
    if (column_step == 1) {
      for (size_t i = 0; i < k; ++i, from += k_step) std::copy_n(from, width, packed + i * panel);
      continue;
    }
    const size_t turned = k_step == 1 && width == panel ? turn_panel<panel>(from, column_step, k, packed) : 0;
    for (size_t j = 0; j < width; ++j) {
      const float* line =
          from + static_cast<ptrdiff_t>(j) * column_step + static_cast<ptrdiff_t>(turned) * k_step;
      for (size_t i = turned; i < k; ++i, line += k_step) packed[i * panel + j] = *line;
    }
  }
}

}  // namespace intact
