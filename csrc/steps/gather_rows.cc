#include "steps/gather_rows.h"

#include <algorithm>
#include <cstring>

#include "base/tuning.h"
#include "steps/common/row_index.h"

namespace intact {
namespace {

using namespace tuning::indexing;

class GatherRows final : public Step {
 public:
  explicit GatherRows(const GatherRowsSpec& s) : s_(s), tuples_(s.index, s.sizes) {
    demand_rows(s.x);
    demand_rows(s.y);
    demand(s.x.type == s.y.type && s.x.sizes[1] == s.y.sizes[1], "rows are alike");
    demand(0 <= s.batch && s.batch < kMostElements && tuples_.rows() <= kMostElements, "too many parts");
    demand(s.batch == 0 || s.x.sizes[0] / s.batch == tuples_.rows(), "rows for each part");
    demand(s.x.sizes[0] == s.batch * tuples_.rows() && s.y.sizes[0] == tuples_.count(),
           "a row for each tuple");
    demand(s.batch > 0 || tuples_.count() == 0, "tuples of no part");
    demand(s.batch == 0 || tuples_.count() % s.batch == 0, "as many tuples for each part");
    part_ = s.batch == 0 ? 1 : std::max<int64_t>(1, tuples_.count() / s.batch);
    bytes_ = static_cast<size_t>(s.x.sizes[1]) * bytes_of(s.x.type);
    each_ = std::max<size_t>(1, 4 * kPiece / std::max<size_t>(1, bytes_));
    reads(s.x);
    reads(s.index);
    writes(s.y);
  }

  std::string name() const override { return "gather_rows"; }
  size_t items() const override {
    return bytes_ == 0 ? 0 : (static_cast<size_t>(tuples_.count()) + each_ - 1) / each_;
  }

  void run(const Memory& memory, size_t begin, size_t end, uint8_t*) const noexcept override {
    const auto last = static_cast<int64_t>(std::min(end * each_, static_cast<size_t>(tuples_.count())));
    for (auto i = static_cast<int64_t>(begin * each_); i < last; ++i) {
      const int64_t row = i / part_ * tuples_.rows() + tuples_.row(memory, i);
      std::memcpy(row_of<uint8_t>(s_.y, memory, i), row_of<const uint8_t>(s_.x, memory, row), bytes_);
    }
  }

 private:
  GatherRowsSpec s_;
  RowIndex tuples_;
  int64_t part_;
  size_t bytes_, each_;
};

}  // namespace

std::unique_ptr<Step> make_gather_rows(const GatherRowsSpec& spec) {
  return std::make_unique<GatherRows>(spec);
}

}  // namespace intact
