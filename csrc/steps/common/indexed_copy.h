// The copy behind gather and gather_elements: an index tensor says which element along one axis each element
// of y is a copy of.
#pragma once

#include <algorithm>
#include <cstring>
#include <string>
#include <type_traits>

#include "base/tuning.h"
#include "steps/common/lines.h"
#include "steps/common/walk.h"

namespace intact {

// The views of a gather, all with the sizes of y.
struct IndexedViews {
  View index, x, y;  // x has stride 0 along the axis that is indexed
  Line line;  // the indexed axis of x
};

// A loop over the outer axes, and one along the innermost axis, where each element reads its index. If the
// innermost axis has no index of its own and is dense in x and y, whole runs along it are copied.
class IndexedCopy final : public Step {
 public:
  IndexedCopy(const char* name, const View& x, const View& index, const IndexedViews& c)
      : name_(name), views_(c), walk_({c.index, c.x, c.y}), unit_(bytes_of(x.type)), inner_(walk_.rank - 1) {
    demand(is_index(index), "indices are int32 or int64");
    demand(x.type == c.y.type, "x and y have one type");
    for (const View* v : {&x, &index, &c.y}) elements_of(*v);
    demand(c.line.size > 0 || walk_.elements == 0, "there is nothing along the axis");
    if (walk_.dense(1) && walk_.dense(2) && walk_.strides[inner_][0] == 0) {
      unit_ *= walk_.size(inner_);
      --inner_;
    }
    const size_t columns = inner_ < 0 ? std::min<size_t>(1, walk_.elements) : walk_.size(inner_);
    const size_t most = std::max<size_t>(1, tuning::indexing::kGatherBytes / std::max<size_t>(1, unit_));
    rows_ = Rows(walk_.outer(std::max(inner_, 0)), columns, most);
    if (inner_ >= 0) steps_ = walk_.strides[inner_];
    once_ = rows_.chunks == 1 && rows_.rows > 1 && steps_[0] != 0;
    for (int i = 0; i < inner_; ++i) once_ = once_ && walk_.strides[i][0] == 0;
    reads(x);
    reads(index);
    writes(c.y);
  }

  std::string name() const override { return name_; }
  size_t items() const override { return rows_.items(); }
  size_t scratch() const override { return once_ ? align64(rows_.columns * sizeof(int64_t)) : 0; }

  void run(const Memory& memory, size_t begin, size_t end, uint8_t* scratch) const noexcept override {
    if (views_.index.type == Type::i64) {
      run_by<int64_t>(memory, begin, end, scratch);
    } else {
      run_by<int32_t>(memory, begin, end, scratch);
    }
  }

 private:
  template <class Index>
  void run_by(const Memory& memory, size_t begin, size_t end, uint8_t* scratch) const {
    switch (unit_) {
      case 1: return run_of<Index>(memory, begin, end, scratch, std::integral_constant<size_t, 1>{});
      case 2: return run_of<Index>(memory, begin, end, scratch, std::integral_constant<size_t, 2>{});
      case 4: return run_of<Index>(memory, begin, end, scratch, std::integral_constant<size_t, 4>{});
      case 8: return run_of<Index>(memory, begin, end, scratch, std::integral_constant<size_t, 8>{});
      case 16: return run_of<Index>(memory, begin, end, scratch, std::integral_constant<size_t, 16>{});
      default: return run_of<Index>(memory, begin, end, scratch, unit_);
    }
  }

  template <class Index, class Unit>
  void run_of(const Memory& memory, size_t begin, size_t end, uint8_t* scratch, Unit unit) const {
    // Local copies: a store of bytes may alias a member, which would then be loaded again.
    const int64_t by_index = steps_[0], by_x = steps_[1], by_y = steps_[2];
    const Line line = views_.line;
    const bool once = once_;
    bool failed = false;
    const auto place = [&](const uint8_t* from) {
      int64_t at = load<Index>(from);
      at += at < 0 ? line.size : 0;
      const bool within = static_cast<uint64_t>(at) < static_cast<uint64_t>(line.size);
      failed |= !within;
      return within ? at * line.stride : 0;
    };
    auto* const places = reinterpret_cast<int64_t*>(scratch);
    const uint8_t* const index = views_.index.at<uint8_t>(memory);
    for (size_t i = 0; once && i < rows_.columns; ++i) {
      places[i] = place(index + static_cast<int64_t>(i) * by_index);
    }
    Cursor<3> cursor(walk_, std::max(inner_, 0), begin * rows_.each / std::max<size_t>(1, rows_.chunks));
    bool started = false;
    rows_.visit(begin, end, [&](size_t, size_t from, size_t n) {
      if (started && from == 0) cursor.next();
      started = true;
      const auto at = static_cast<int64_t>(from);
      const uint8_t* x = views_.x.at<uint8_t>(memory) + cursor.offset(1) + at * by_x;
      uint8_t* y = views_.y.at<uint8_t>(memory) + cursor.offset(2) + at * by_y;
      const uint8_t* next = index + cursor.offset(0) + at * by_index;
      if (once) {
        for (size_t i = 0; i < n; ++i, x += by_x, y += by_y) std::memcpy(y, x + places[i], unit);
        return;
      }
      // With constant strides the compiler makes the address arithmetic free.
      const auto row = [&](auto index_step, auto x_step, auto y_step) {
        for (size_t i = 0; i < n; ++i, x += x_step, y += y_step, next += index_step) {
          std::memcpy(y, x + place(next), unit);
        }
      };
      constexpr std::integral_constant<int64_t, sizeof(Index)> kIndex;
      if (by_index != kIndex || by_y != static_cast<int64_t>(unit)) return row(by_index, by_x, by_y);
      by_x == 0 ? row(kIndex, std::integral_constant<int64_t, 0>{}, unit) : row(kIndex, by_x, unit);
    });
    if (failed) memory.fail();
  }

  const char* name_;
  IndexedViews views_;
  Walk<3> walk_;
  size_t unit_;
  int inner_;
  std::array<int64_t, 3> steps_{};
  bool once_;  // all rows have the same indices, which are read once
  Rows rows_;
};

}  // namespace intact
