// Weights in blocks as the right side of products of codes (N69): the parts that calls of a kernel read.
#pragma once

#include <algorithm>
#include <optional>

#include "kernels/block_gemm/block_gemm.h"
#include "steps/block_linear.h"
#include "steps/common/views.h"

namespace intact {

// Few rows read weights as they are. For more, codes of 5 and 6 bits or of a table and numbers in two levels
// are worked out in scratch, for a few panels at a time.
class BlockProduct {
 public:
  struct Part {
    BlockGemm g;  // what rows are and y are left out
    void (*multiply)(const BlockGemm& g);
  };

  // Takes the weights of a spec alone, and declares them: reads(const View&). Throws std::invalid_argument
  // unless they are those of so many outputs.
  template <class Reads>
  BlockProduct(const BlockGemmOps& ops, const BlockLinearSpec& s, const BlockCut& cut, int64_t outputs,
               const Reads& reads)
      : BlockProduct(ops, s, cut, outputs) {
    reads(s.weight);
    if (s.table) reads(*s.table);
    s.scales.declare(reads);
    if (s.minima) s.minima->declare(reads);
    for (const std::optional<View>* v : {&s.zeros, &s.sums, &s.bias}) {
      if (*v) reads(**v);
    }
  }

  // Panels of a part, of a chunk of so many. They are multiplied by so many rows in all.
  int64_t panels(int64_t rows, int64_t chunk) const {
    const bool is_ready = !expands(rows) && !multiplies_levels(rows);
    return is_ready ? chunk : std::min(static_cast<int64_t>(ops_.panels), chunk);
  }
  // Bytes for a part; fewer rows never take more.
  size_t scratch(int64_t rows, int64_t panels) const {
    const size_t levels = multiplies_levels(rows) ? 2 * level_values(panels) * sizeof(float) : 0;
    return kernel_scratch() + code_bytes(rows, panels) + levels;
  }

  // The weights of panels from `panel` on.
  Part part(const Memory& memory, int64_t rows, int64_t panel, int64_t panels, uint8_t* scratch) const {
    Part part{};
    BlockGemm& g = part.g;
    g.scratch = scratch;
    g.x_blocks = static_cast<size_t>(cut_.x_blocks);
    g.w_blocks = static_cast<size_t>(cut_.w_blocks);
    g.codes = codes_.at<const uint8_t>(memory) + panel * cut_.units * bits_ * 16;
    if (table_) g.table = table_->at<const uint8_t>(memory);
    part.multiply = multiply_of(expands(rows) ? 8 : table_ ? kBlockTable : bits_);
    if (expands(rows)) g.codes = expand(g, panels, scratch + kernel_scratch());
    if (multiplies_levels(rows)) {
      auto* const to = reinterpret_cast<float*>(scratch + kernel_scratch() + code_bytes(rows, panels));
      g.scales = scales_.read(memory, panel, panels, 0, cut_.w_blocks, to);
      if (minima_)
        g.minima = minima_->read(memory, panel, panels, 0, cut_.w_blocks, to + level_values(panels));
    } else {
      g.scales = scales_.read(memory, panel);
      if (minima_) g.minima = minima_->read(memory, panel);
    }
    if (zeros_) g.zeros = zeros_->at<const uint8_t>(memory) + panel * cut_.w_blocks * kPanel;
    g.zero = zero_;
    if (sums_) g.sums = sums_->at<const int32_t>(memory) + panel * cut_.pieces * kPanel;
    if (bias_) g.bias = bias_->at<const float>(memory) + panel * kPanel;
    g.k = static_cast<size_t>(cut_.k);
    g.units = static_cast<size_t>(cut_.units);
    g.pieces = static_cast<size_t>(cut_.pieces);
    g.piece = static_cast<size_t>(cut_.piece);
    g.x_every = static_cast<size_t>(cut_.x_every);
    g.w_every = static_cast<size_t>(cut_.w_every);
    g.columns = static_cast<size_t>(std::min(panels * kPanel, outputs_ - panel * kPanel));
    return part;
  }

 private:
  static constexpr auto kPanel = static_cast<int64_t>(kBlockPanel);

  BlockProduct(const BlockGemmOps& ops, const BlockLinearSpec& s, const BlockCut& cut, int64_t outputs)
      : ops_(ops),
        cut_(cut),
        outputs_(outputs),
        bits_(s.bits),
        zero_(s.zero),
        codes_(s.weight),
        scales_(ops, s.scales, block_panels(outputs), cut.w_blocks, "a scale for each block of weights") {
    demand_block_codes(s.weight, s.table, Type::u8, s.bits, cut, outputs);
    if (s.table) table_.emplace(*s.table);
    const auto panels = static_cast<size_t>(block_panels(outputs));
    const size_t values = panels * static_cast<size_t>(cut.w_blocks) * kBlockPanel;
    if (s.minima)
      minima_.emplace(ops, *s.minima, block_panels(outputs), cut.w_blocks,
                      "a minimum for each block of weights");
    demand(s.x_zeros.has_value() == s.sums.has_value(), "zero points need the sums of codes");
    take(s.zeros, Type::u8, values, "a zero point for each block of weights", zeros_);
    take(s.sums, Type::i32, panels * static_cast<size_t>(cut.pieces) * kBlockPanel, "sums", sums_);
    take(s.bias, Type::f32, panels * kBlockPanel, "one number of a bias for each output", bias_);
  }

  static void take(const std::optional<View>& v, Type type, size_t size, const char* what,
                   std::optional<Origin>& origin) {
    if (!v) return;
    demand_vector(*v, type, size, what);
    origin.emplace(*v);
  }

  bool is_few(int64_t rows) const { return static_cast<size_t>(rows) <= ops_.few_rows; }
  bool multiplies_levels(int64_t rows) const {
    return !is_few(rows) && (scales_.has_levels() || (minima_ && minima_->has_levels()));
  }
  bool expands(int64_t rows) const {
    if (table_) return !is_few(rows);
    const bool has_groups = cut_.piece % static_cast<int64_t>(block_units(bits_)) == 0;
    return bits_ != 4 && bits_ != 8 && !(is_few(rows) && has_groups);
  }

  // What the kernel wants, codes of 8 bits, and products of two levels.
  size_t kernel_scratch() const { return align64(ops_.scratch * static_cast<size_t>(cut_.units)); }
  size_t code_bytes(int64_t rows, int64_t panels) const {
    return expands(rows) ? static_cast<size_t>(panels * cut_.units) * 128 : 0;
  }
  size_t level_values(int64_t panels) const { return static_cast<size_t>(panels * cut_.w_blocks * kPanel); }

  const uint8_t* expand(const BlockGemm& g, int64_t panels, uint8_t* to) const {
    expand_codes(ops_, bits_, g.codes, static_cast<size_t>(panels * cut_.units), g.table, to);
    return to;
  }

  void (*multiply_of(int bits) const)(const BlockGemm&) {
    return bits == 4             ? ops_.multiply4
           : bits == 5           ? ops_.multiply5
           : bits == 6           ? ops_.multiply6
           : bits == kBlockTable ? ops_.multiply_table
                                 : ops_.multiply8;
  }

  const BlockGemmOps& ops_;
  BlockCut cut_;
  int64_t outputs_;
  int bits_;
  int32_t zero_;
  Origin codes_;
  std::optional<Origin> table_, zeros_, sums_, bias_;
  BlockValuesReader scales_;
  std::optional<BlockValuesReader> minima_;
};

}  // namespace intact
