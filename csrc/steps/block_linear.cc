#include "steps/block_linear.h"

#include <algorithm>

#include "base/half.h"
#include "base/tuning.h"
#include "kernels/registry.h"
#include "steps/common/block_product.h"
#include "steps/common/block_rows.h"
#include "steps/common/row_index.h"

namespace intact {
namespace {

constexpr auto kUnit = static_cast<int64_t>(kBlockUnit), kPanel = static_cast<int64_t>(kBlockPanel);

int64_t parts_of(int64_t n, int64_t part) { return n / part + (n % part != 0 ? 1 : 0); }

void demand_matrix(const View& v, Type type, int64_t rows, int64_t columns, const char* what) {
  demand_rows(v);
  demand(v.type == type && v.sizes[0] == rows && v.sizes[1] == columns, what);
}

void demand_groups(const View& v, Type type, int64_t groups, int64_t columns, const char* what) {
  const int64_t row = columns * static_cast<int64_t>(bytes_of(type));
  demand_matrix(v, type, groups, columns, what);
  demand(groups < 2 || v.strides[0] == row, "groups do not follow each other");
}

class BlockRows final : public Step {
 public:
  BlockRows(const BlockGemmOps& ops, const BlockRowsSpec& s, const BlockCut& cut)
      : ops_(ops),
        x_(s.x),
        x_scales_(s.x_scales),
        codes_(s.codes),
        negatives_(s.negatives),
        scales_(s.scales),
        is_unsigned_(s.x.type == Type::u8),
        cut_(cut),
        rows_(s.x.sizes[0]),
        group_(static_cast<int64_t>(ops.group)),
        groups_(parts_of(rows_, group_)) {
    demand_rows(s.x);
    demand(s.x.type == Type::i8 || s.x.type == Type::u8, "codes are bytes");
    demand(s.x.sizes[1] == cut.k, "rows are as long as the weights");
    demand(s.zeros.has_value() == (s.x.type == Type::u8), "unsigned codes have zero points");
    demand(!s.x_zeros || s.zeros, "zero points are laid out too");
    demand_matrix(s.x_scales, Type::f32, rows_, cut.x_blocks, "a scale for each block");
    if (s.x_zeros) demand_matrix(*s.x_zeros, Type::u8, rows_, cut.x_blocks, "a zero point for each block");
    demand_groups(s.codes, Type::i8, groups_, cut.row_bytes() * group_, "whole units");
    demand_groups(s.negatives, Type::i32, groups_, cut.pieces * group_, "a sum for each piece");
    demand_groups(s.scales, Type::f32, groups_, cut.x_blocks * group_, "a scale for each block");
    if (s.zeros) demand_groups(*s.zeros, Type::i32, groups_, cut.x_blocks * group_, "a zero for each block");
    each_ = std::max<int64_t>(1, static_cast<int64_t>(tuning::tensors::kGrain) / (cut.k * group_));
    reads(s.x);
    reads(s.x_scales);
    if (s.x_zeros) {
      reads(*s.x_zeros);
      x_zeros_.emplace(*s.x_zeros);
    }
    for (const View* v : {&s.codes, &s.negatives, &s.scales}) writes(*v);
    if (s.zeros) {
      writes(*s.zeros);
      zeros_.emplace(*s.zeros);
    }
  }
  std::string name() const override { return "block_rows"; }
  size_t items() const override { return static_cast<size_t>(parts_of(groups_, each_)); }

  void run(const Memory& memory, size_t begin, size_t end, uint8_t*) const noexcept override {
    const int64_t last = std::min(static_cast<int64_t>(end) * each_, groups_);
    for (int64_t group = static_cast<int64_t>(begin) * each_; group < last; ++group) {
      const uint8_t* rows[kBlockMostGroup] = {};
      for (int64_t turn = 0; turn < group_; ++turn) {
        const int64_t row = group * group_ + turn;
        if (row < rows_) rows[turn] = x_.at<const uint8_t>(memory, row);
        lay_ranges(memory, group, turn);
      }
      auto* const negatives = negatives_.at<int32_t>(memory, group);
      ops_.lay(lay_of(cut_, rows, is_unsigned_, codes_.at<int8_t>(memory, group), negatives));
      if (zeros_) shift(zeros_->at<const int32_t>(memory, group), negatives);
    }
  }

 private:
  void lay_ranges(const Memory& memory, int64_t group, int64_t turn) const {
    const int64_t row = group * group_ + turn;
    const bool is_there = row < rows_, has_zero = is_there && x_zeros_;
    auto* const scales = scales_.at<float>(memory, group) + turn;
    for (int64_t b = 0; b < cut_.x_blocks; ++b)
      scales[b * group_] = is_there ? x_scales_.at<const float>(memory, row)[b] : 0.0f;
    if (!zeros_) return;
    auto* const zeros = zeros_->at<int32_t>(memory, group) + turn;
    for (int64_t b = 0; b < cut_.x_blocks; ++b)
      zeros[b * group_] = (has_zero ? x_zeros_->at<const uint8_t>(memory, row)[b] : 0) - 128;
  }

  // Sums of codes, with the other sign, become those of codes less their zeros.
  void shift(const int32_t* zeros, int32_t* negatives) const {
    for (int64_t p = 0; p < cut_.pieces; ++p) {
      const int64_t from = p * cut_.piece * kUnit, end = std::min(from + cut_.piece * kUnit, cut_.k);
      for (int64_t turn = 0; turn < group_; ++turn) {
        const int32_t zero = zeros[p / cut_.x_every * group_ + turn];
        negatives[p * group_ + turn] += zero * static_cast<int32_t>(end - from);
      }
    }
  }

  const BlockGemmOps& ops_;
  RowOrigins x_, x_scales_, codes_, negatives_, scales_;
  std::optional<RowOrigins> x_zeros_, zeros_;
  bool is_unsigned_;
  BlockCut cut_;
  int64_t rows_, group_, groups_, each_;
};

class BlockLinear final : public Step {
 public:
  BlockLinear(const BlockGemmOps& ops, const BlockLinearSpec& s, const BlockCut& cut)
      : ops_(ops),
        rows_(s.y.sizes[0]),
        columns_(s.y.sizes[1]),
        x_codes_(s.x_codes),
        negatives_(s.negatives),
        x_scales_(s.x_scales),
        y_(s.y),
        y_pitch_(static_cast<size_t>(s.y.strides[0] / 4)),
        product_(ops, s, cut, columns_, [this](const View& v) { reads(v); }) {
    demand_matrix(s.y, Type::f32, rows_, columns_, "outputs are float32");
    const auto group = static_cast<int64_t>(ops.group), groups = parts_of(rows_, group);
    demand_groups(s.x_codes, Type::i8, groups, cut.row_bytes() * group, "whole units");
    demand_groups(s.negatives, Type::i32, groups, cut.pieces * group, "a sum for each piece");
    demand_groups(s.x_scales, Type::f32, groups, cut.x_blocks * group, "a scale for each block");
    if (s.x_zeros) {
      demand_groups(*s.x_zeros, Type::i32, groups, cut.x_blocks * group, "a zero for each block");
      x_zeros_.emplace(*s.x_zeros);
      reads(*s.x_zeros);
    }
    demand(s.y.strides[0] % 4 == 0 && s.y.strides[0] >= 0 && s.y.offset % 4 == 0, "rows of floats");
    cut_items(cut.k);
    for (const View* v : {&s.x_codes, &s.negatives, &s.x_scales}) reads(*v);
    writes(s.y);
  }

  std::string name() const override { return name_of(&ops_); }
  size_t items() const override { return static_cast<size_t>(blocks_ * chunks_); }
  size_t scratch() const override { return product_.scratch(rows_, together_); }

  void run(const Memory& memory, size_t begin, size_t end, uint8_t* scratch) const noexcept override {
    BlockProduct::Part part{};
    int64_t ready = -1;  // the panel whose weights lie in scratch: items of all rows follow each other
    for (auto item = static_cast<int64_t>(begin); item < static_cast<int64_t>(end); ++item) {
      const int64_t row = item % blocks_ * block_, first = item / blocks_ * chunk_;
      const int64_t last = std::min(first + chunk_, block_panels(columns_));
      for (int64_t panel = first; panel < last; ready = panel, panel += together_) {
        if (panel != ready)
          part = product_.part(memory, rows_, panel, std::min(together_, last - panel), scratch);
        multiply(memory, row, panel, part);
      }
    }
  }

 private:
  // Multiplies the rows of a block from `row` on by weights, from a panel on.
  void multiply(const Memory& memory, int64_t row, int64_t panel, BlockProduct::Part& part) const {
    BlockGemm& g = part.g;
    g.rows = static_cast<size_t>(std::min(block_, rows_ - row));
    const int64_t group = row / static_cast<int64_t>(ops_.group);
    g.x = x_codes_.at<const int8_t>(memory, group);
    g.negatives = negatives_.at<const int32_t>(memory, group);
    g.x_scales = x_scales_.at<const float>(memory, group);
    if (x_zeros_) g.x_zeros = x_zeros_->at<const int32_t>(memory, group);
    g.y = y_.at<float>(memory, row) + panel * kPanel;
    g.y_pitch = y_pitch_;
    part.multiply(g);
  }

  void cut_items(int64_t k) {
    using namespace tuning::block_products;
    block_ = std::max<int64_t>(1, std::min(kMostRows, rows_));
    const int64_t panels = block_panels(columns_), each = std::max<int64_t>(1, block_ * k * kPanel);
    const auto together = static_cast<int64_t>(ops_.panels);
    chunk_ = std::clamp<int64_t>(kItem / each / together * together, std::min(together, panels), panels);
    blocks_ = parts_of(rows_, block_);
    chunks_ = parts_of(panels, chunk_);
    together_ = product_.panels(rows_, chunk_);
  }

  const BlockGemmOps& ops_;
  int64_t rows_, columns_;
  RowOrigins x_codes_, negatives_, x_scales_, y_;
  std::optional<RowOrigins> x_zeros_;
  size_t y_pitch_;
  BlockProduct product_;
  int64_t block_ = 1, chunk_ = 1, blocks_ = 0, chunks_ = 0;  // rows and panels of an item
  int64_t together_ = 1;  // panels of a call
};

}  // namespace

BlockCut::BlockCut(int64_t k_, int64_t x_block, int64_t w_block) : k(k_), units(parts_of(k_, kUnit)) {
  demand(0 < k && k < kMostElements && x_block > 0 && w_block > 0, "blocks have elements");
  const int64_t x_size = std::min(x_block, k), w_size = std::min(w_block, k);
  const int64_t small = std::min(x_size, w_size), large = std::max(x_size, w_size);
  demand(large == k || large % small == 0, "blocks of one side are parts of those of the other");
  demand(small == k || (small % kUnit == 0 && (large == k || large % kUnit == 0)),
         "a block ends within a unit");
  demand(small <= (int64_t{1} << 31) / (255 * 255), "a sum may leave int32");
  piece = parts_of(small, kUnit);
  pieces = parts_of(k, small);
  x_blocks = parts_of(k, x_size);
  w_blocks = parts_of(k, w_size);
  x_every = x_size == k ? pieces : x_size / small;
  w_every = w_size == k ? pieces : w_size / small;
}

int64_t block_panels(int64_t outputs) {
  demand(0 < outputs && outputs < kMostElements, "there are outputs");
  return parts_of(outputs, kPanel);
}

void demand_block_codes(const View& codes, const std::optional<View>& table, Type type, int bits,
                        const BlockCut& cut, int64_t outputs) {
  if (table) demand_vector(*table, type, kBlockTableSize, "a table of 16 values");
  demand(!table || bits == 4, "places in a table have 4 bits");
  demand(bits == 4 || bits == 8 || (packed_bits(bits, cut.k) == bits && bits > 4),
         "codes have bits of panels");
  demand_vector(codes, Type::u8, static_cast<size_t>(block_panels(outputs) * cut.units * bits) * 16,
                "packed codes of another size");
}

std::unique_ptr<Step> make_block_rows(const BlockGemmOps& ops, const BlockRowsSpec& spec,
                                      const BlockCut& cut) {
  return std::make_unique<BlockRows>(ops, spec, cut);
}

std::unique_ptr<Step> make_block_linear(const BlockGemmOps& ops, const BlockLinearSpec& spec,
                                        const BlockCut& cut) {
  return std::make_unique<BlockLinear>(ops, spec, cut);
}

std::vector<uint8_t> pack_block_codes(std::span<const uint8_t> stream, int64_t n, int64_t k, int bits) {
  const auto outputs = static_cast<size_t>(n), depth = static_cast<size_t>(k),
             each = static_cast<size_t>(bits);
  const size_t row = (depth * each + 7) / 8, panels = (outputs + kBlockPanel - 1) / kBlockPanel;
  const int packed = packed_bits(bits, k);
  const size_t panel_bytes = block_panel_bytes(k, packed);
  std::vector<uint8_t> bytes(panels * panel_bytes);
  for (size_t i = 0; i < outputs; ++i) {
    const uint8_t* const from = stream.data() + i * row;
    uint8_t* const panel = bytes.data() + i / kBlockPanel * panel_bytes;
    for (size_t at = 0; at < depth; ++at) {
      const size_t bit = at * each, byte = bit / 8;
      const unsigned both = from[byte] | (byte + 1 < row ? unsigned{from[byte + 1]} << 8 : 0u);
      add_block_code(panel, packed, at, i % kBlockPanel, both >> (bit % 8) & ((1u << each) - 1));
    }
  }
  return bytes;
}

std::vector<uint8_t> halve_block_values(std::span<const float> values) {
  std::vector<uint16_t> halves(values.size());
  bool is_exact = true;
  for (size_t i = 0; i < values.size() && is_exact; ++i) {
    halves[i] = float_to_half(values[i]);
    const float again = half_to_float(halves[i]);
    is_exact = std::memcmp(&again, &values[i], sizeof again) == 0;
  }
  const auto* const from = is_exact ? reinterpret_cast<const uint8_t*>(halves.data())
                                    : reinterpret_cast<const uint8_t*>(values.data());
  return {from, from + values.size() * (is_exact ? sizeof(uint16_t) : sizeof(float))};
}

std::vector<int32_t> sum_block_codes(std::span<const uint8_t> packed, int64_t n, int bits,
                                     const BlockCut& cut, const uint8_t* table) {
  const auto panels = static_cast<size_t>(parts_of(n, kPanel)), units = static_cast<size_t>(cut.units),
             pieces = static_cast<size_t>(cut.pieces), piece = static_cast<size_t>(cut.piece);
  std::vector<int32_t> sums(panels * pieces * kBlockPanel);
  for (size_t panel = 0; panel < panels; ++panel) {
    const uint8_t* const codes = packed.data() + panel * units * static_cast<size_t>(bits) * 16;
    for (size_t k = 0; k < static_cast<size_t>(cut.k); ++k) {
      int32_t* const to = sums.data() + (panel * pieces + k / kBlockUnit / piece) * kBlockPanel;
      for (size_t i = 0; i < kBlockPanel; ++i) {
        const uint8_t code = block_code(codes, bits, k, i);
        to[i] += table != nullptr ? table[code] : code;
      }
    }
  }
  return sums;
}

}  // namespace intact
