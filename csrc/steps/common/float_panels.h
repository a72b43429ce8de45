// The right side of a product of floats, packed while a step runs.
#pragma once

#include <algorithm>

#include "kernels/float_gemm/float_gemm.h"
#include "kernels/transpose/transpose.h"

namespace intact {

// Packs b[k * down + column * across] as panels. Columns that lie along k go by squares.
inline void pack_matrix(const FloatGemmOps& ops, const TransposeOps& transpose, const float* b,
                        ptrdiff_t down, ptrdiff_t across, size_t k, size_t columns, float* packed) {
  if (across == 1 || down != 1) return ops.pack(b, down, across, k, columns, packed);
  for (size_t from = 0; from < columns; from += ops.panel, packed += ops.panel * k) {
    const size_t width = std::min(ops.panel, columns - from);
    if (width < ops.panel) std::fill_n(packed, ops.panel * k, 0.0f);
    const auto* lines = reinterpret_cast<const uint8_t*>(b + static_cast<ptrdiff_t>(from) * across);
    transpose.words(lines, 4 * across, width, k, reinterpret_cast<uint8_t*>(packed),
                    static_cast<ptrdiff_t>(4 * ops.panel));
  }
}

}  // namespace intact
