// Panels of columns. Static: every instruction set has its own copy.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "kernels/float_gemm/float_gemm.h"

namespace intact {

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
    for (size_t j = 0; j < width; ++j) {
      const float* line = from + static_cast<ptrdiff_t>(j) * column_step;
      for (size_t i = 0; i < k; ++i, line += k_step) packed[i * panel + j] = *line;
    }
  }
}

}  // namespace intact
