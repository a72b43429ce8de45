// Rows of floats times the floats of block weights (N67), by a product of floats (N51). For many rows weights
// are widened tile by tile into the second cache, few rows widen them in registers.
#pragma once

#include <algorithm>
#include <optional>

#include "kernels/block_gemm/block_gemm.h"
#include "kernels/float_gemm/float_gemm.h"
#include "steps/block_linear.h"
#include "steps/common/views.h"

namespace intact {

struct BlockFloatWeights {
  int bits;  // of packed codes
  View codes;  // packed, as for BlockLinearSpec, as are those below
  std::optional<View> table;  // f32 [16]: values of codes of 4 bits
  BlockValues scales;
  std::optional<View> zeros;
  int32_t zero;
  std::optional<BlockValues> minima;
  std::optional<View> start;  // f32 [outputs]
};

class BlockFloatProduct {
 public:
  static constexpr int64_t kColumns = 64;  // of a tile
  static constexpr int64_t kRows = 256;  // what widening a tile costs is shared by them, at most

  // Throws std::invalid_argument where sizes do not fit.
  BlockFloatProduct(const FloatGemmOps& floats, const BlockGemmOps& blocks, const BlockFloatWeights& w,
                    const BlockCut& cut, int64_t outputs)
      : floats_(floats),
        blocks_(blocks),
        w_(w),
        cut_(cut),
        scales_(blocks, w_.scales, block_panels(outputs), cut.w_blocks, "a scale for each block of weights") {
    demand(cut.w_every == 1, "activations have no blocks");
    demand(kColumns % static_cast<int64_t>(floats.panel) == 0, "a tile is of whole panels");
    demand_block_codes(w.codes, w.table, Type::f32, w.bits, cut, outputs);
    const size_t values = static_cast<size_t>(block_panels(outputs) * cut.w_blocks) * kBlockPanel;
    if (w.zeros) demand_vector(*w.zeros, Type::u8, values, "a zero point for each block of weights");
    if (w.minima)
      minima_.emplace(blocks, *w_.minima, block_panels(outputs), cut.w_blocks,
                      "a minimum for each block of weights");
    if (w.start) demand_vector(*w.start, Type::f32, static_cast<size_t>(outputs), "a start for each output");
  }

  BlockFloatProduct(const BlockFloatProduct&) = delete;
  BlockFloatProduct& operator=(const BlockFloatProduct&) = delete;

  // What a step that multiplies has to declare as read.
  template <class Reads>
  void declare(const Reads& reads) const {
    reads(w_.codes);
    if (w_.table) reads(*w_.table);
    w_.scales.declare(reads);
    if (w_.minima) w_.minima->declare(reads);
    for (const std::optional<View>* v : {&w_.zeros, &w_.start}) {
      if (*v) reads(**v);
    }
  }

  // A tile, numbers of a panel's blocks, and codes of 8 bits of a panel.
  size_t scratch() const {
    return (tile_floats() + 2 * level_values()) * sizeof(float) + static_cast<size_t>(kDepthUnits) * 128;
  }

  // At most kRows rows a [k] by `columns` outputs from `column` on, a multiple of 16; y[row] is that of the
  // first of them. Without few rows at most kColumns.
  void multiply(const Memory& memory, const float* const* a, float* const* y, size_t rows, int64_t column,
                int64_t columns, uint8_t* scratch) const {
    if (is_few(rows)) return multiply_few(memory, a, y, rows, column, columns);
    auto* const tile = reinterpret_cast<float*>(scratch);
    FloatGemm g{};
    ptrdiff_t offset = 0;
    g.a = a;
    g.offsets = &offset;
    g.runs = 1;
    g.step = 1;
    g.b = tile;
    g.pitch = tile_floats() / static_cast<size_t>(kColumns) * floats_.panel;
    g.start = start(memory, column);
    g.y = y;
    g.rows = rows;
    g.columns = static_cast<size_t>(columns);
    for (int64_t unit = 0; unit < cut_.units; unit += kDepthUnits) {
      widen(memory, column, column + columns, unit, g.pitch, tile);
      offset = static_cast<ptrdiff_t>(unit * static_cast<int64_t>(kBlockUnit));
      g.length = static_cast<size_t>(
          std::min(kDepthUnits * static_cast<int64_t>(kBlockUnit), cut_.k - static_cast<int64_t>(offset)));
      floats_.multiply(g);
      g.more = true;
    }
  }

 private:
  // Of a tile of weights: 128 KiB of floats, in the second cache. A quarter of it costs many rows 15%,
  // because sums are stored and loaded again between parts (Zen 4, MatMulNBits of accuracy level 0).
  static constexpr int64_t kDepthUnits = 64;
  static constexpr size_t kFewRows = 4;
  static constexpr auto kPanel = static_cast<int64_t>(kBlockPanel);

  // Codes of 5 and 6 bits, and minima, are for tiles: instances of kernels for them would take 200 KB.
  bool is_few(size_t rows) const { return rows <= kFewRows && w_.bits % 4 == 0 && !minima_; }

  size_t tile_floats() const {
    return static_cast<size_t>(kColumns * std::min(kDepthUnits, cut_.units)) * kBlockUnit;
  }

  // Products of two levels of a panel's blocks that a tile touches.
  size_t level_values() const {
    return static_cast<size_t>(std::min(cut_.w_blocks, kDepthUnits / cut_.piece + 2)) * kBlockPanel;
  }

  const uint8_t* codes(const Memory& memory, int64_t panel, int64_t unit) const {
    return w_.codes.at<const uint8_t>(memory) + (panel * cut_.units + unit) * w_.bits * 16;
  }

  const uint8_t* zeros(const Memory& memory, int64_t panel, int64_t block) const {
    if (!w_.zeros) return nullptr;
    return w_.zeros->at<const uint8_t>(memory) + (panel * cut_.w_blocks + block) * kPanel;
  }

  const float* start(const Memory& memory, int64_t column) const {
    return w_.start ? w_.start->at<float>(memory) + column : nullptr;
  }

  const float* table(const Memory& memory) const {
    return w_.table ? w_.table->at<const float>(memory) : nullptr;
  }

  void multiply_few(const Memory& memory, const float* const* a, float* const* y, size_t rows, int64_t column,
                    int64_t columns) const {
    const int64_t panel = column / kPanel;
    BlockFloatRows g{};
    g.a = a;
    g.rows = rows;
    g.k = static_cast<size_t>(cut_.k);
    g.units = static_cast<size_t>(cut_.units);
    g.codes = codes(memory, panel, 0);
    g.table = table(memory);
    g.scales = scales_.read(memory, panel);
    g.zeros = zeros(memory, panel, 0);
    g.zero = w_.zero;
    g.w_blocks = static_cast<size_t>(cut_.w_blocks);
    g.piece = static_cast<size_t>(cut_.piece);
    g.start = start(memory, column);
    g.y = y;
    g.columns = static_cast<size_t>(columns);
    w_.bits == 4 ? blocks_.float_rows4(g) : blocks_.float_rows8(g);
  }

  // A tile's units from `unit` on. Blocks are counted from the one of the first unit.
  void widen(const Memory& memory, int64_t column, int64_t end, int64_t unit, size_t pitch,
             float* tile) const {
    const int64_t units = std::min(kDepthUnits, cut_.units - unit), block = unit / cut_.piece,
                  blocks = (unit + units - 1) / cut_.piece + 1 - block;
    float* const levels = tile + tile_floats();
    auto* const bytes = reinterpret_cast<uint8_t*>(levels + 2 * level_values());
    BlockFloats w{};
    w.table = table(memory);
    w.zero = w_.zero;
    w.piece = static_cast<size_t>(cut_.piece);
    w.from = static_cast<size_t>(unit - block * cut_.piece);
    w.units = static_cast<size_t>(units);
    w.width = floats_.panel;
    w.pitch = pitch;
    for (int64_t at = column; at < end; at += kPanel) {
      const int64_t panel = at / kPanel;
      w.codes = codes(memory, panel, unit);
      if (w_.bits % 4 != 0) {
        expand_codes(blocks_, w_.bits, w.codes, w.units, nullptr, bytes);
        w.codes = bytes;
      }
      w.scales = scales_.read(memory, panel, 1, block, blocks, levels);
      w.zeros = zeros(memory, panel, block);
      if (minima_) w.minima = minima_->read(memory, panel, 1, block, blocks, levels + level_values());
      const auto first = static_cast<size_t>(at - column);
      w.to = tile + first / w.width * pitch + first % w.width;
      w_.bits == 4 ? blocks_.widen4(w) : blocks_.widen8(w);
    }
  }

  const FloatGemmOps& floats_;
  const BlockGemmOps& blocks_;
  BlockFloatWeights w_;
  BlockCut cut_;
  BlockValuesReader scales_;
  std::optional<BlockValuesReader> minima_;
};

}  // namespace intact
