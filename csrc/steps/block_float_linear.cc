#include "steps/block_float_linear.h"

#include <algorithm>

#include "kernels/registry.h"
#include "steps/common/row_index.h"

namespace intact {
namespace {

int64_t parts_of(int64_t n, int64_t part) { return (n + part - 1) / part; }

class BlockFloatLinear final : public Step {
 public:
  BlockFloatLinear(const FloatGemmOps& floats, const BlockGemmOps& blocks, const BlockFloatLinearSpec& s,
                   const BlockCut& cut)
      : floats_(floats),
        x_(s.x),
        y_(s.y),
        rows_(s.y.sizes[0]),
        columns_(s.y.sizes[1]),
        product_(floats, blocks, s.weights, cut, columns_) {
    demand_rows(s.x);
    demand_rows(s.y);
    demand(s.x.type == Type::f32 && s.y.type == Type::f32, "a product of floats is of float32");
    for (const View* v : {&s.x, &s.y}) demand(v->strides[0] % 4 == 0 && v->offset % 4 == 0, "rows of floats");
    demand(s.x.sizes[0] == rows_ && s.x.sizes[1] == cut.k, "rows are as long as the weights");
    block_ = std::max<int64_t>(1, std::min(BlockFloatProduct::kRows, rows_));
    row_blocks_ = parts_of(rows_, block_);
    reads(s.x);
    product_.declare([&](const View& v) { reads(v); });
    writes(y_);
  }

  std::string name() const override { return name_of(&floats_); }
  size_t items() const override {
    return static_cast<size_t>(row_blocks_ * parts_of(columns_, BlockFloatProduct::kColumns));
  }
  size_t scratch() const override { return address_bytes() + product_.scratch(); }

  void run(const Memory& memory, size_t begin, size_t end, uint8_t* scratch) const noexcept override {
    auto* const a = reinterpret_cast<const float**>(scratch);
    auto* const y = reinterpret_cast<float**>(scratch) + block_;
    for (size_t item = begin; item < end; ++item) {
      const auto at = static_cast<int64_t>(item);
      const int64_t row = at % row_blocks_ * block_, column = at / row_blocks_ * BlockFloatProduct::kColumns;
      const int64_t rows = std::min(block_, rows_ - row);
      for (int64_t r = 0; r < rows; ++r) {
        a[r] = row_of<const float>(x_, memory, row + r);
        y[r] = row_of<float>(y_, memory, row + r) + column;
      }
      const int64_t columns = std::min(BlockFloatProduct::kColumns, columns_ - column);
      product_.multiply(memory, a, y, static_cast<size_t>(rows), column, columns, scratch + address_bytes());
    }
  }

 private:
  size_t address_bytes() const { return align64(2 * static_cast<size_t>(block_) * sizeof(void*)); }

  const FloatGemmOps& floats_;
  View x_, y_;
  int64_t rows_, columns_, block_ = 1, row_blocks_ = 0;
  BlockFloatProduct product_;
};

}  // namespace

std::unique_ptr<Step> make_block_float_linear(const FloatGemmOps& floats, const BlockGemmOps& blocks,
                                              const BlockFloatLinearSpec& spec, const BlockCut& cut) {
  return std::make_unique<BlockFloatLinear>(floats, blocks, spec, cut);
}

}  // namespace intact
