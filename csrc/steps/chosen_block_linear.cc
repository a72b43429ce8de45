#include "steps/chosen_block_linear.h"

#include <algorithm>
#include <cstring>

#include "base/tuning.h"
#include "kernels/registry.h"
#include "steps/common/block_product.h"
#include "steps/common/block_rows.h"
#include "steps/common/row_index.h"

namespace intact {
namespace {

constexpr auto kUnit = static_cast<int64_t>(kBlockUnit), kPanel = static_cast<int64_t>(kBlockPanel);

int64_t parts_of(int64_t n, int64_t part) { return n / part + (n % part != 0 ? 1 : 0); }

// An item is a group and some of its outputs. It finds the rows that chose the group and multiplies so many
// of them at a time as its scratch has room for.
class ChosenRows : public Step {
 public:
  ChosenRows(const ChosenBlockSpec& s, const BlockCut& cut, int64_t most_rows)
      : s_(s), index_(s.index, {s.groups}) {
    demand_rows(s.x);
    demand_rows(s.y);
    demand(s.y.type == Type::f32 && s.y.strides[0] % 4 == 0 && s.y.offset % 4 == 0, "rows of floats");
    demand(s.x.sizes[1] == cut.k, "rows are as long as the weights");
    outputs_ = s.y.sizes[1];
    demand(outputs_ > 0 && outputs_ < kMostElements && outputs_ % kPanel == 0, "groups of whole panels");
    demand(0 < s.groups && s.groups < kMostElements / outputs_, "groups of outputs");
    demand(index_.count() == s.y.sizes[0], "an index for each row of y");
    const int64_t rows = s.x.sizes[0];
    demand(rows > 0 ? index_.count() % rows == 0 : index_.count() == 0, "as many rows of y for each of x");
    each_ = rows > 0 ? std::max<int64_t>(1, index_.count() / rows) : 1;
    most_ = std::max<int64_t>(1, std::min(most_rows, index_.count()));
    reads(s.x);
    reads(s.index);
    writes(s.y);
  }

  size_t items() const override { return static_cast<size_t>(s_.groups * chunks_); }

  void run(const Memory& memory, size_t begin, size_t end, uint8_t* scratch) const noexcept override {
    auto* const rows = reinterpret_cast<int64_t*>(scratch);
    uint8_t* const rest = scratch + row_bytes();
    for (auto item = static_cast<int64_t>(begin); item < static_cast<int64_t>(end); ++item) {
      const int64_t group = item / chunks_, column = item % chunks_ * chunk_;
      const int64_t columns = std::min(chunk_, outputs_ - column);
      int64_t count = 0;
      for (int64_t row = 0; row < index_.count(); ++row) {
        if (index_.row(memory, row) != group) continue;
        rows[count++] = row;
        if (count < most_) continue;
        multiply(memory, group, column, columns, {rows, static_cast<size_t>(count)}, rest);
        count = 0;
      }
      if (count > 0) multiply(memory, group, column, columns, {rows, static_cast<size_t>(count)}, rest);
    }
  }

 protected:
  // Multiplies rows of y by outputs [column, column + columns) of a group.
  virtual void multiply(const Memory& memory, int64_t group, int64_t column, int64_t columns,
                        std::span<const int64_t> rows, uint8_t* scratch) const noexcept = 0;

  size_t row_bytes() const { return align64(static_cast<size_t>(most_) * sizeof(int64_t)); }
  void cut_outputs(int64_t chunk) {
    chunk_ = std::min(chunk, outputs_);
    chunks_ = parts_of(outputs_, chunk_);
  }

  ChosenBlockSpec s_;
  RowIndex index_;
  int64_t outputs_ = 0, each_ = 1, most_ = 1, chunk_ = 1, chunks_ = 1;
};

class ChosenFloats final : public ChosenRows {
 public:
  ChosenFloats(const FloatGemmOps& floats, const BlockGemmOps& blocks, const ChosenBlockFloats& s,
               const BlockCut& cut)
      : ChosenRows(s.rows, cut, BlockFloatProduct::kRows),
        floats_(floats),
        product_(floats, blocks, s.weights, cut, s.rows.groups * s.rows.y.sizes[1]) {
    demand(s.rows.x.type == Type::f32 && s.rows.x.strides[0] % 4 == 0 && s.rows.x.offset % 4 == 0,
           "rows of floats");
    cut_outputs(BlockFloatProduct::kColumns);
    product_.declare([&](const View& v) { reads(v); });
  }

  std::string name() const override { return name_of(&floats_); }
  size_t scratch() const override { return row_bytes() + address_bytes() + product_.scratch(); }

 private:
  size_t address_bytes() const { return align64(2 * static_cast<size_t>(most_) * sizeof(void*)); }

  void multiply(const Memory& memory, int64_t group, int64_t column, int64_t columns,
                std::span<const int64_t> rows, uint8_t* scratch) const noexcept override {
    auto* const a = reinterpret_cast<const float**>(scratch);
    auto* const y = reinterpret_cast<float**>(scratch) + most_;
    for (size_t i = 0; i < rows.size(); ++i) {
      a[i] = row_of<const float>(s_.x, memory, rows[i] / each_);
      y[i] = row_of<float>(s_.y, memory, rows[i]) + column;
    }
    product_.multiply(memory, a, y, rows.size(), group * outputs_ + column, columns,
                      scratch + address_bytes());
  }

  const FloatGemmOps& floats_;
  BlockFloatProduct product_;
};

class ChosenCodes final : public ChosenRows {
 public:
  ChosenCodes(const BlockGemmOps& ops, const ChosenBlockCodes& s, const BlockCut& cut)
      : ChosenRows(s.rows, cut, tuning::block_products::kMostRows),
        ops_(ops),
        x_scales_(s.x_scales),
        cut_(cut),
        product_(ops, s.weights, cut, s.rows.groups * s.rows.y.sizes[1],
                 [this](const View& v) { reads(v); }) {
    demand(s.rows.x.type == Type::i8, "codes with a sign");
    demand_rows(x_scales_);
    demand(x_scales_.type == Type::f32 && x_scales_.sizes[0] == s_.x.sizes[0] &&
               x_scales_.sizes[1] == cut.x_blocks,
           "a scale for each block");
    const auto together = static_cast<int64_t>(ops.panels) * kPanel;
    cut_outputs(parts_of(kOutputs, together) * together);
    reads(x_scales_);
  }

  std::string name() const override { return name_of(&ops_); }
  size_t scratch() const override { return row_bytes() + room_at(nullptr).second; }

 private:
  static constexpr int64_t kOutputs = 512;  // of an item: what laying rows out costs is shared by them

  struct Room {
    int8_t* codes;
    int32_t* negatives;
    float *scales, *y;
    uint8_t* weights;
  };

  // The parts of a scratch, and the bytes of all.
  std::pair<Room, size_t> room_at(uint8_t* scratch) const {
    const size_t rows = static_cast<size_t>(parts_of(most_, group())) * ops_.group;
    size_t bytes = 0;
    const auto take = [&](size_t size) {
      uint8_t* const at = scratch == nullptr ? nullptr : scratch + bytes;
      bytes += align64(size);
      return at;
    };
    Room room;
    room.codes = reinterpret_cast<int8_t*>(take(rows * static_cast<size_t>(cut_.row_bytes())));
    room.negatives = reinterpret_cast<int32_t*>(take(rows * static_cast<size_t>(cut_.pieces) * 4));
    room.scales = reinterpret_cast<float*>(take(rows * static_cast<size_t>(cut_.x_blocks) * 4));
    room.y = reinterpret_cast<float*>(take(rows * static_cast<size_t>(chunk_) * 4));
    room.weights = take(product_.scratch(most_, product_.panels(most_, chunk_ / kPanel)));
    return {room, bytes};
  }

  int64_t group() const { return static_cast<int64_t>(ops_.group); }

  void multiply(const Memory& memory, int64_t group, int64_t column, int64_t columns,
                std::span<const int64_t> rows, uint8_t* scratch) const noexcept override {
    const Room room = room_at(scratch).first;
    for (size_t i = 0; i < rows.size(); i += ops_.group)
      lay(memory, room, i, rows.subspan(i, std::min(ops_.group, rows.size() - i)));
    const int64_t first = (group * outputs_ + column) / kPanel, panels = columns / kPanel;
    const auto count = static_cast<int64_t>(rows.size());
    const int64_t together = product_.panels(count, panels);
    for (int64_t panel = 0; panel < panels; panel += together) {
      const int64_t here = std::min(together, panels - panel);
      BlockProduct::Part part = product_.part(memory, count, first + panel, here, room.weights);
      part.g.x = room.codes;
      part.g.rows = rows.size();
      part.g.negatives = room.negatives;
      part.g.x_scales = room.scales;
      part.g.y = room.y + panel * kPanel;
      part.g.y_pitch = static_cast<size_t>(columns);
      part.multiply(part.g);
    }
    for (size_t i = 0; i < rows.size(); ++i) {
      float* const to = row_of<float>(s_.y, memory, rows[i]) + column;
      std::memcpy(to, room.y + i * static_cast<size_t>(columns), static_cast<size_t>(columns) * sizeof *to);
    }
  }

  // A group of rows from the i-th row of an item on.
  void lay(const Memory& memory, const Room& room, size_t i, std::span<const int64_t> rows) const {
    const uint8_t* from[kBlockMostGroup] = {};
    const auto blocks = static_cast<size_t>(cut_.x_blocks), pieces = static_cast<size_t>(cut_.pieces);
    float* const scales = room.scales + i * blocks;
    for (size_t r = 0; r < ops_.group; ++r) {
      const int64_t row = r < rows.size() ? rows[r] / each_ : -1;
      if (row >= 0) from[r] = row_of<const uint8_t>(s_.x, memory, row);
      for (size_t b = 0; b < blocks; ++b)
        scales[b * ops_.group + r] = row < 0 ? 0.0f : row_of<const float>(x_scales_, memory, row)[b];
    }
    ops_.lay(lay_of(cut_, from, false, room.codes + i * static_cast<size_t>(cut_.row_bytes()),
                    room.negatives + i * pieces));
  }

  const BlockGemmOps& ops_;
  View x_scales_;
  BlockCut cut_;
  BlockProduct product_;
};

}  // namespace

std::unique_ptr<Step> make_chosen_block_codes(const BlockGemmOps& ops, const ChosenBlockCodes& spec,
                                              const BlockCut& cut) {
  return std::make_unique<ChosenCodes>(ops, spec, cut);
}

std::unique_ptr<Step> make_chosen_block_floats(const FloatGemmOps& floats, const BlockGemmOps& blocks,
                                               const ChosenBlockFloats& spec, const BlockCut& cut) {
  return std::make_unique<ChosenFloats>(floats, blocks, spec, cut);
}

}  // namespace intact
