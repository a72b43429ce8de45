#include "steps/scatter.h"

#include <algorithm>

#include "base/tuning.h"
#include "steps/lines.h"
#include "steps/walk.h"

namespace intact {
namespace {

using namespace tuning::picks;

// y of n elements, `step` bytes from each other, and as many updates.
using Combine = void (*)(uint8_t* y, int64_t step, const uint8_t* update, int64_t by, int64_t n);

// numerics.maximum and minimum: b where it is beyond a, or no number.
template <Reduction kKind, class T>
T combined(T a, T b) {
  if constexpr (kKind == Reduction::add) return sum(a, b);
  if constexpr (kKind == Reduction::mul) return product(a, b);
  if constexpr (kKind == Reduction::max) return a < b || b != b ? b : a;
  if constexpr (kKind == Reduction::min) return a > b || b != b ? b : a;
  return b;
}

template <class T, Reduction kKind>
void combine(uint8_t* y, int64_t step, const uint8_t* update, int64_t by, int64_t n) {
  constexpr auto kUnit = static_cast<int64_t>(sizeof(T));
  if (step == kUnit && by == kUnit) {
    for (int64_t i = 0; i < n; ++i) {
      uint8_t* const to = y + i * kUnit;
      store(to, combined<kKind>(load<T>(to), load<T>(update + i * kUnit)));
    }
    return;
  }
  for (int64_t i = 0; i < n; ++i, y += step, update += by) {
    store(y, combined<kKind>(load<T>(y), load<T>(update)));
  }
}

template <class T>
void put(uint8_t* y, int64_t step, const uint8_t* update, int64_t by, int64_t n) {
  constexpr auto kUnit = static_cast<int64_t>(sizeof(T));
  if (step == kUnit && by == kUnit) {
    std::memcpy(y, update, static_cast<size_t>(n * kUnit));
    return;
  }
  for (int64_t i = 0; i < n; ++i, y += step, update += by) store(y, load<T>(update));
}

template <class T>
Combine combine_by(Reduction kind) {
  switch (kind) {
    case Reduction::add: return combine<T, Reduction::add>;
    case Reduction::mul: return combine<T, Reduction::mul>;
    case Reduction::max: return combine<T, Reduction::max>;
    default: return combine<T, Reduction::min>;
  }
}

Combine combine_of(Type type, Reduction kind) {
  if (kind == Reduction::none) {
    switch (bytes_of(type)) {
      case 1: return put<uint8_t>;
      case 2: return put<uint16_t>;
      case 4: return put<uint32_t>;
      default: return put<uint64_t>;
    }
  }
  switch (type) {
    case Type::f32: return combine_by<float>(kind);
    case Type::i32: return combine_by<int32_t>(kind);
    case Type::i64: return combine_by<int64_t>(kind);
    default: refuse("what is combined is float32, int32 or int64");
  }
}

// An index within [0, size), of which negative ones count from the end; 0, and the run fails, for others.
int64_t within(int64_t index, int64_t size, const Memory& memory) {
  if (index < 0) index += size;
  if (0 <= index && index < size) return index;
  memory.fail();
  return 0;
}

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
        const int64_t to = within(index_at(s_.index, index + i * index_.stride), line_.size, memory);
        combine_(y + to * line_.stride, 0, updates + i * updates_.stride, 0, 1);
      }
    }
  }

 private:
  // Where the lines of y begin that the index has.
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

// Tuples of indices as numbers of rows.
class Tuples {
 public:
  Tuples(const View& index, std::vector<int64_t> sizes) : index_(index), sizes_(std::move(sizes)) {
    demand(is_index(index) && index.rank == 2, "indices are int32 or int64, one tuple in each row");
    demand(index.sizes[1] == static_cast<int64_t>(sizes_.size()), "each number of a tuple has a size");
    elements_of(index);
    for (const int64_t size : sizes_) {
      demand(0 <= size && size < kMostElements && rows_ <= kMostElements / std::max<int64_t>(1, size),
             "a size is out of range");
      rows_ *= size;
    }
    demand(rows_ > 0 || index.sizes[0] == 0, "there are no rows");
  }

  int64_t count() const { return index_.sizes[0]; }
  int64_t rows() const { return rows_; }

  int64_t row(const Memory& memory, int64_t i) const {
    const uint8_t* at = index_.at<uint8_t>(memory) + i * index_.strides[0];
    int64_t row = 0;
    for (const int64_t size : sizes_) {
      row = row * size + within(index_at(index_, at), size, memory);
      at += index_.strides[1];
    }
    return row;
  }

 private:
  View index_;
  std::vector<int64_t> sizes_;
  int64_t rows_ = 1;
};

void demand_rows(const View& v) {
  demand(v.rank == 2, "rows are those of a matrix");
  demand(v.sizes[1] < 2 || v.strides[1] == static_cast<int64_t>(bytes_of(v.type)),
         "rows do not lie side by side");
  elements_of(v);
}

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
  Tuples tuples_;
  Combine combine_;
  int64_t columns_;
};

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
      std::memcpy(s_.y.at<uint8_t>(memory) + i * s_.y.strides[0],
                  s_.x.at<uint8_t>(memory) + row * s_.x.strides[0], bytes_);
    }
  }

 private:
  GatherRowsSpec s_;
  Tuples tuples_;
  int64_t part_;
  size_t bytes_, each_;
};

}  // namespace

std::unique_ptr<Step> make_scatter_elements(const ScatterElementsSpec& spec) {
  return std::make_unique<ScatterElements>(spec);
}

std::unique_ptr<Step> make_scatter_rows(const ScatterRowsSpec& spec) {
  return std::make_unique<ScatterRows>(spec);
}

std::unique_ptr<Step> make_gather_rows(const GatherRowsSpec& spec) {
  return std::make_unique<GatherRows>(spec);
}

Reduction reduction_of(const std::string& name) {
  constexpr const char* kNames[] = {"none", "add", "mul", "max", "min"};
  for (size_t i = 0; i < std::size(kNames); ++i) {
    if (name == kNames[i]) return static_cast<Reduction>(i);
  }
  refuse("there is no such reduction");
}

}  // namespace intact
