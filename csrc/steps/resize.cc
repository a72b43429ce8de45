#include "steps/resize.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "base/tuning.h"
#include "steps/common/walk.h"

namespace intact {
namespace {

using namespace tuning::moves;

// The same with the axes in the memory order of y, so that pixels of images are copied whole.
ResizeSpec in_order(const ResizeSpec& s) {
  demand(s.x.rank == s.y.rank && s.indices.size() == static_cast<size_t>(s.y.rank),
         "one list of indices for each axis");
  const auto axes = axes_in_memory(s.y);
  ResizeSpec ordered = s;
  for (int i = 0; i < s.y.rank; ++i) {
    const int from = axes[static_cast<size_t>(i)];
    ordered.x.sizes[i] = s.x.sizes[from];
    ordered.x.strides[i] = s.x.strides[from];
    ordered.y.sizes[i] = s.y.sizes[from];
    ordered.y.strides[i] = s.y.strides[from];
    ordered.indices[static_cast<size_t>(i)] = s.indices[static_cast<size_t>(from)];
  }
  return ordered;
}

class Resize final : public Step {
 public:
  explicit Resize(const ResizeSpec& s) : s_(in_order(s)), unit_(bytes_of(s.y.type)), rank_(s.y.rank) {
    const size_t elements = elements_of(s.y);
    elements_of(s.x);
    demand(s.x.type == s.y.type && s.x.rank == rank_ && rank_ > 0, "x and y have one type and one rank");
    for (int i = 0; i < rank_; ++i) demand_within(i);
    const int last = rank_ - 1;
    find_runs(last);
    const size_t columns = static_cast<size_t>(s_.y.sizes[last]);
    rows_ = Rows(columns == 0 ? 0 : elements / columns, columns, kTile);
    reads(s.x);
    writes(s.y);
  }

  std::string name() const override { return "resize"; }
  size_t items() const override { return rows_.items(); }

  void run(const Memory& memory, size_t begin, size_t end, uint8_t*) const noexcept override {
    rows_.visit(begin, end, [&](size_t row, size_t from, size_t n) {
      const uint8_t* x = s_.x.at<uint8_t>(memory);
      uint8_t* y = s_.y.at<uint8_t>(memory);
      for (int i = rank_ - 2; i >= 0; --i) {
        const size_t size = static_cast<size_t>(s_.y.sizes[i]), at = row % size;
        row /= size;
        x += s_.indices[static_cast<size_t>(i)][at] * s_.x.strides[i];
        y += static_cast<int64_t>(at) * s_.y.strides[i];
      }
      columns(x, y, from, n);
    });
  }

 private:
  void demand_within(int axis) const {
    const auto& indices = s_.indices[static_cast<size_t>(axis)];
    demand(indices.size() == static_cast<size_t>(s_.y.sizes[axis]), "one index for each position");
    for (const int64_t i : indices) demand(0 <= i && i < s_.x.sizes[axis], "an index is out of range");
  }

  // The length of the run that begins at each column: positive where its columns are contiguous in x and y,
  // negative where they are not.
  void find_runs(int axis) {
    const auto& indices = s_.indices[static_cast<size_t>(axis)];
    const auto unit = static_cast<int64_t>(unit_);
    const bool dense = s_.x.strides[axis] == unit && s_.y.strides[axis] == unit;
    const auto joins = [&](size_t i) { return dense && indices[i + 1] == indices[i] + 1; };
    runs_.assign(indices.size(), -1);
    for (size_t i = indices.size(); i-- > 0;) {
      const int64_t next = i + 1 < indices.size() ? runs_[i + 1] : 0;
      if (next != 0 && joins(i)) {
        runs_[i] = std::max<int64_t>(next, 1) + 1;
      } else if (next < 0) {
        runs_[i] = next - 1;
      }
    }
  }

  void columns(const uint8_t* x, uint8_t* y, size_t from, size_t n) const {
    switch (unit_) {
      case 1: return columns_of<1>(x, y, from, n);
      case 2: return columns_of<2>(x, y, from, n);
      case 4: return columns_of<4>(x, y, from, n);
      default: return columns_of<8>(x, y, from, n);
    }
  }

  template <size_t kUnit>
  void columns_of(const uint8_t* x, uint8_t* y, size_t from, size_t n) const {
    const int64_t* const indices = s_.indices[static_cast<size_t>(rank_ - 1)].data();
    const int64_t x_step = s_.x.strides[rank_ - 1], y_step = s_.y.strides[rank_ - 1];
    for (size_t i = from, end = from + n; i < end;) {
      const size_t run = std::min(static_cast<size_t>(std::abs(runs_[i])), end - i);
      uint8_t* const to = y + static_cast<int64_t>(i) * y_step;
      if (runs_[i] > 0) {
        std::memcpy(to, x + indices[i] * x_step, run * kUnit);
      } else {
        for (size_t k = 0; k < run; ++k) {
          std::memcpy(to + static_cast<int64_t>(k) * y_step, x + indices[i + k] * x_step, kUnit);
        }
      }
      i += run;
    }
  }

  ResizeSpec s_;
  size_t unit_;
  int rank_;
  std::vector<int64_t> runs_;
  Rows rows_;
};

}  // namespace

std::unique_ptr<Step> make_resize(const ResizeSpec& spec) { return std::make_unique<Resize>(spec); }

}  // namespace intact
