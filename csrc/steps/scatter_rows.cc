#include "steps/scatter_rows.h"

#include <algorithm>

#include "base/tuning.h"
#include "steps/common/row_index.h"

namespace intact {
namespace {

using namespace tuning::indexing;

// Pieces of columns, so that all updates of a place are one thread's.
class ScatterRows final : public Step {
 public:
  explicit ScatterRows(const ScatterRowsSpec& s)
      : s_(s), tuples_(s.index, s.sizes), combine_(combine_of(s.y.type, s.reduction)) {
    demand_rows(s.updates);
    demand_rows(s.y);
    demand(s.updates.type == s.y.type && s.updates.sizes[1] == s.y.sizes[1], "rows are alike");
    demand(s.updates.sizes[0] == tuples_.count() && s.y.sizes[0] == tuples_.rows(), "a row for each tuple");
    const auto count = static_cast<size_t>(std::max<int64_t>(1, tuples_.count()));
    columns_ = static_cast<int64_t>(std::max<size_t>(64, kPiece / count));
    reads(s.index);
    reads(s.updates);
    reads(s.y);
    writes(s.y);
  }

  std::string name() const override { return "scatter_rows"; }
  size_t items() const override {
    if (tuples_.count() == 0) return 0;
    return static_cast<size_t>((s_.y.sizes[1] + columns_ - 1) / columns_);
  }

  void run(const Memory& memory, size_t begin, size_t end, uint8_t*) const noexcept override {
    const auto unit = static_cast<int64_t>(bytes_of(s_.y.type));
    const int64_t from = static_cast<int64_t>(begin) * columns_;
    const int64_t n = std::min(static_cast<int64_t>(end) * columns_, s_.y.sizes[1]) - from;
    const uint8_t* update = s_.updates.at<uint8_t>(memory) + from * unit;
    uint8_t* const y = s_.y.at<uint8_t>(memory) + from * unit;
    for (int64_t i = 0; i < tuples_.count(); ++i, update += s_.updates.strides[0]) {
      combine_(y + tuples_.row(memory, i) * s_.y.strides[0], unit, update, unit, n);
    }
  }

 private:
  ScatterRowsSpec s_;
  RowIndex tuples_;
  Combine combine_;
  int64_t columns_;
};

}  // namespace

std::unique_ptr<Step> make_scatter_rows(const ScatterRowsSpec& spec) {
  return std::make_unique<ScatterRows>(spec);
}

}  // namespace intact
