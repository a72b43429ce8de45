#include "steps/block_float_linear.h"

#include <algorithm>

#include "kernels/registry.h"
#include "steps/common/row_index.h"

namespace intact {
namespace {

// Of a tile of weights: 128 KiB of floats, in the second cache. A quarter of it costs many rows 15%, because
// sums are stored and loaded again between parts (Zen 4, MatMulNBits of accuracy level 0).
constexpr int64_t kColumns = 64, kDepthUnits = 64;
constexpr int64_t kRows = 256;  // of an item: what widening costs is shared by them

int64_t parts_of(int64_t n, int64_t part) { return (n + part - 1) / part; }

class BlockFloatLinear final : public Step {
 public:
  BlockFloatLinear(const FloatGemmOps& floats, const BlockGemmOps& blocks, const BlockFloatLinearSpec& s,
                   const BlockCut& cut)
      : floats_(floats),
        blocks_(blocks),
        s_(s),
        cut_(cut),
        rows_(s.y.sizes[0]),
        columns_(s.y.sizes[1]),
        scales_(blocks, s.scales, panels(), cut.w_blocks, "a scale for each block of weights") {
    demand_rows(s.x);
    demand_rows(s.y);
    demand(s.x.type == Type::f32 && s.y.type == Type::f32, "a product of floats is of float32");
    for (const View* v : {&s.x, &s.y}) demand(v->strides[0] % 4 == 0 && v->offset % 4 == 0, "rows of floats");
    demand(s.x.sizes[0] == rows_ && s.x.sizes[1] == cut.k, "rows are as long as the weights");
    demand(s.bits == 4 || s.bits == 8 || (packed_bits(s.bits, cut.k) == s.bits && s.bits > 4),
           "codes have bits of panels");
    demand(columns_ > 0 && columns_ < kMostElements, "there are outputs");
    demand(cut.w_every == 1, "activations have no blocks");
    demand(kColumns % static_cast<int64_t>(floats.panel) == 0, "a tile is of whole panels");
    demand_vector(s.weight, Type::u8, static_cast<size_t>(panels() * cut.units * s.bits) * 16,
                  "packed codes");
    const size_t values = static_cast<size_t>(panels() * cut.w_blocks) * kBlockPanel;
    if (s.zeros) demand_vector(*s.zeros, Type::u8, values, "a zero point for each block of weights");
    if (s.minima)
      minima_.emplace(blocks, *s.minima, panels(), cut.w_blocks, "a minimum for each block of weights");
    if (s.start) demand_vector(*s.start, Type::f32, static_cast<size_t>(columns_), "a start for each output");
    block_ = std::max<int64_t>(1, std::min(kRows, rows_));
    row_blocks_ = parts_of(rows_, block_);
    declare();
  }

  std::string name() const override { return name_of(&floats_); }
  size_t items() const override { return static_cast<size_t>(row_blocks_ * parts_of(columns_, kColumns)); }
  size_t scratch() const override {
    return align64(2 * static_cast<size_t>(block_) * sizeof(void*)) +
           (tile_floats() + 2 * level_values()) * sizeof(float) + static_cast<size_t>(kDepthUnits) * 128;
  }

  void run(const Memory& memory, size_t begin, size_t end, uint8_t* scratch) const noexcept override {
    for (size_t item = begin; item < end; ++item) {
      const auto at = static_cast<int64_t>(item);
      multiply(memory, at % row_blocks_ * block_, at / row_blocks_ * kColumns, scratch);
    }
  }

 private:
  int64_t panels() const { return parts_of(columns_, static_cast<int64_t>(kBlockPanel)); }
  // Products of two levels of a panel's blocks that a tile touches.
  size_t level_values() const {
    const int64_t blocks = std::min(cut_.w_blocks, kDepthUnits / cut_.piece + 2);
    return static_cast<size_t>(blocks) * kBlockPanel;
  }
  size_t tile_floats() const {
    return static_cast<size_t>(kColumns * std::min(kDepthUnits, cut_.units)) * kBlockUnit;
  }

  void declare() {
    for (const View* v : {&s_.x, &s_.weight, &s_.scales.reals}) reads(*v);
    for (const std::optional<View>* v : {&s_.zeros, &s_.start, &s_.scales.fine}) {
      if (*v) reads(**v);
    }
    if (s_.minima) {
      reads(s_.minima->reals);
      if (s_.minima->fine) reads(*s_.minima->fine);
    }
    writes(s_.y);
  }

  // Rows from `row` on by columns from `column` on, one part of k after the other.
  void multiply(const Memory& memory, int64_t row, int64_t column, uint8_t* scratch) const {
    const int64_t rows = std::min(block_, rows_ - row);
    auto* const a = reinterpret_cast<const float**>(scratch);
    auto* const y = reinterpret_cast<float**>(scratch) + block_;
    auto* const tile =
        reinterpret_cast<float*>(scratch + align64(2 * static_cast<size_t>(block_) * sizeof(void*)));
    for (int64_t r = 0; r < rows; ++r) {
      a[r] = row_of<const float>(s_.x, memory, row + r);
      y[r] = row_of<float>(s_.y, memory, row + r) + column;
    }
    FloatGemm g{};
    ptrdiff_t offset = 0;
    g.a = a;
    g.offsets = &offset;
    g.runs = 1;
    g.step = 1;
    g.b = tile;
    g.pitch = tile_floats() / static_cast<size_t>(kColumns) * floats_.panel;
    g.start = s_.start ? s_.start->at<float>(memory) + column : nullptr;
    g.y = y;
    g.rows = static_cast<size_t>(rows);
    g.columns = static_cast<size_t>(std::min(kColumns, columns_ - column));
    for (int64_t unit = 0; unit < cut_.units; unit += kDepthUnits) {
      widen(memory, column, unit, g.pitch, tile);
      offset = static_cast<ptrdiff_t>(unit * static_cast<int64_t>(kBlockUnit));
      g.length = static_cast<size_t>(
          std::min(kDepthUnits * static_cast<int64_t>(kBlockUnit), cut_.k - static_cast<int64_t>(offset)));
      floats_.multiply(g);
      g.more = true;
    }
  }

  // A tile's units from `unit` on. Blocks are counted from the one of the first unit.
  void widen(const Memory& memory, int64_t column, int64_t unit, size_t pitch, float* tile) const {
    const auto width = static_cast<int64_t>(kBlockPanel);
    const int64_t units = std::min(kDepthUnits, cut_.units - unit), block = unit / cut_.piece,
                  blocks = (unit + units - 1) / cut_.piece + 1 - block;
    float* const levels = tile + tile_floats();
    auto* const bytes = reinterpret_cast<uint8_t*>(levels + 2 * level_values());
    BlockFloats w{};
    w.piece = static_cast<size_t>(cut_.piece);
    w.from = static_cast<size_t>(unit - block * cut_.piece);
    w.units = static_cast<size_t>(units);
    w.width = floats_.panel;
    w.pitch = pitch;
    const int64_t end = std::min(column + kColumns, columns_);
    for (int64_t at = column; at < end; at += width) {
      const int64_t panel = at / width;
      w.codes = s_.weight.at<const uint8_t>(memory) + (panel * cut_.units + unit) * s_.bits * 16;
      if (s_.bits == 5 || s_.bits == 6) {
        (s_.bits == 5 ? blocks_.expand5 : blocks_.expand6)(w.codes, w.units, bytes);
        w.codes = bytes;
      }
      w.scales = scales_.read(memory, panel, 1, block, blocks, levels);
      if (s_.zeros) w.zeros = s_.zeros->at<const uint8_t>(memory) + (panel * cut_.w_blocks + block) * width;
      w.zero = s_.zero;
      if (minima_) w.minima = minima_->read(memory, panel, 1, block, blocks, levels + level_values());
      const auto first = static_cast<size_t>(at - column);
      w.to = tile + first / w.width * pitch + first % w.width;
      s_.bits == 4 ? blocks_.widen4(w) : blocks_.widen8(w);
    }
  }

  const FloatGemmOps& floats_;
  const BlockGemmOps& blocks_;
  BlockFloatLinearSpec s_;
  BlockCut cut_;
  int64_t rows_, columns_, block_ = 1, row_blocks_ = 0;
  BlockValuesReader scales_;
  std::optional<BlockValuesReader> minima_;
};

}  // namespace

std::unique_ptr<Step> make_block_float_linear(const FloatGemmOps& floats, const BlockGemmOps& blocks,
                                              const BlockFloatLinearSpec& spec, const BlockCut& cut) {
  return std::make_unique<BlockFloatLinear>(floats, blocks, spec, cut);
}

}  // namespace intact
