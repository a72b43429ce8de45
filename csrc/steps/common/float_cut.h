// The division of products of floats. Columns are cut so that a block of the right side stays in the cache,
// rows so that threads share the work, and k so that both sides of a tile stay in the first cache.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>

#include "base/tuning.h"
#include "kernels/float_gemm/float_gemm.h"
#include "steps/common/views.h"

namespace intact {

struct FloatCut {
  size_t rows = 0, columns = 0, k = 0;
  size_t chunk = 1, block = 1;  // columns and rows of an item; the last ones may have fewer
  size_t chunks = 0, blocks = 0;

  FloatCut(const FloatGemmOps& ops, size_t rows_, size_t columns_, size_t k_, size_t times)
      : rows(rows_), columns(columns_), k(k_) {
    if (rows == 0 || columns == 0) return;
    const size_t depth = std::max<size_t>(1, k),
                 products = rows * columns * depth * std::max<size_t>(1, times);
    const size_t panel = ops.panel, item_products = std::clamp(products / 16, tuning::floats::kSmallItem,
                                                               tuning::floats::kLargeItem);
    chunk = std::clamp(tuning::floats::kMostFloats / depth / panel * panel, panel,
                       (columns + panel - 1) / panel * panel);
    const size_t high = std::max(tuning::floats::kLeastRows, item_products / (depth * chunk)) / ops.rows *
                        ops.rows;  // whole tiles
    block = std::min(high, rows);
    chunks = (columns + chunk - 1) / chunk;
    blocks = (rows + block - 1) / block;
  }
  size_t items() const { return chunks * blocks; }
  size_t panels(size_t panel) const { return (columns + panel - 1) / panel; }
};

// A matrix that this kernel has packed before.
struct PackedFloats {
  const float* data = nullptr;
  size_t size = 0;
  std::shared_ptr<const void> owner;  // keeps them alive
};

// Demands a dense vector of starts, one for each column.
inline void demand_start(const View& start, size_t columns) {
  demand_vector(start, Type::f32, columns, "a start is float32, one for each column, side by side");
}

// Like `ops.multiply`, in parts of k. Each part continues the sums that the one before stored.
inline void multiply_by_parts(const FloatGemmOps& ops, FloatGemm g) {
  const size_t runs = g.runs, length = g.length;
  if (g.rows <= tuning::floats::kFewRows || runs * length < 2 * tuning::floats::kDepth)
    return ops.multiply(g);
  if (runs == 1) {
    const ptrdiff_t first = g.offsets[0];
    for (size_t from = 0; from < length; from += tuning::floats::kDepth) {
      const ptrdiff_t offset = first + static_cast<ptrdiff_t>(from) * g.step;
      g.offsets = &offset;
      g.length = std::min(tuning::floats::kDepth, length - from);
      ops.multiply(g);
      g.b += g.length * ops.panel;
      g.more = true;
    }
    return;
  }
  const size_t most = std::max<size_t>(1, tuning::floats::kDepth / length);
  for (size_t from = 0; from < runs; from += most) {
    g.runs = std::min(most, runs - from);
    ops.multiply(g);
    g.offsets += g.runs;
    g.b += g.runs * length * ops.panel;
    g.more = true;
  }
}

}  // namespace intact
