#include "steps/scatter_elements.h"

#include <algorithm>

#include "base/tuning.h"
#include "steps/common/row_index.h"
#include "steps/common/walk.h"

namespace intact {
namespace {

using namespace tuning::indexing;

class ScatterElements final : public Step {
 public:
  explicit ScatterElements(const ScatterElementsSpec& s)
      : s_(s),
        index_(line_of(s.index, s.axis)),
        updates_(line_of(s.updates, s.axis)),
        line_(line_of(s.y, s.axis)),
        walk_({beginnings(s.index, s.axis), beginnings(s.updates, s.axis), shrunk(s)}),
        combine_(combine_of(s.y.type, s.reduction)) {
    demand(is_index(s.index), "indices are int32 or int64");
    demand(s.updates.type == s.y.type, "updates and y have one type");
    demand_same_sizes(s.index, s.updates);
    for (const View* v : {&s.index, &s.updates, &s.y}) elements_of(*v);
    lines_ = index_.size == 0 ? 0 : walk_.outer(walk_.rank);
    demand(line_.size > 0 || lines_ == 0, "there is nothing along the axis");
    each_ = std::max<size_t>(1, kPiece / static_cast<size_t>(std::max<int64_t>(1, index_.size)));
    reads(s.index);
    reads(s.updates);
    reads(s.y);
    writes(s.y);
  }

  std::string name() const override { return "scatter_elements"; }
  size_t items() const override { return (lines_ + each_ - 1) / each_; }

  void run(const Memory& memory, size_t begin, size_t end, uint8_t*) const noexcept override {
    const size_t last = std::min(end * each_, lines_);
    Cursor<3> cursor(walk_, walk_.rank, begin * each_);
    for (size_t line = begin * each_; line < last; ++line, cursor.next()) {
      const uint8_t* const index = s_.index.at<uint8_t>(memory) + cursor.offset(0);
      const uint8_t* const updates = s_.updates.at<uint8_t>(memory) + cursor.offset(1);
      uint8_t* const y = s_.y.at<uint8_t>(memory) + cursor.offset(2);
      for (int64_t i = 0; i < index_.size; ++i) {
        const int64_t to = index_within(index_at(s_.index, index + i * index_.stride), line_.size, memory);
        combine_(y + to * line_.stride, 0, updates + i * updates_.stride, 0, 1);
      }
    }
  }

 private:
  // Returns the view of y's lines that the index has.
  static View shrunk(const ScatterElementsSpec& s) {
    demand(s.index.rank == s.y.rank, "views of one step differ in their axes");
    View y = s.y;
    for (int i = 0; i < y.rank; ++i) {
      const auto at = static_cast<size_t>(i);
      if (i == s.axis) continue;
      demand(s.index.sizes[at] <= y.sizes[at], "the index is larger than y");
      y.sizes[at] = s.index.sizes[at];
    }
    return beginnings(y, s.axis);
  }

  ScatterElementsSpec s_;
  Line index_, updates_, line_;
  Walk<3> walk_;
  Combine combine_;
  size_t lines_, each_;
};

}  // namespace

std::unique_ptr<Step> make_scatter_elements(const ScatterElementsSpec& spec) {
  return std::make_unique<ScatterElements>(spec);
}

}  // namespace intact
