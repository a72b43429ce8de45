#include "steps/reduce.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "base/tuning.h"
#include "kernels/registry.h"
#include "steps/common/column_blocks.h"
#include "steps/common/row_reader.h"
#include "steps/common/row_writer.h"
#include "steps/common/walk.h"

namespace intact {
namespace {

using namespace tuning::float_steps;

constexpr size_t kLanes = 16;
constexpr size_t kMostRuns = size_t{1} << 24;

// The elements of one result in memory: runs of n elements with one stride, one run from each start.
struct Runs {
  std::vector<int64_t> starts{0};
  size_t n = 1;
  int64_t stride = 0;

  // The runs over the axes of a view from `axis` on, the last one fastest.
  Runs(const View& x, int axis) {
    int last = x.rank - 1;
    for (; last >= axis && follows(x.sizes[last], x.strides[last]); --last) {
      if (n == 1) stride = x.strides[last];
      n *= static_cast<size_t>(x.sizes[last]);
    }
    for (; last >= axis; --last) repeat(x.sizes[last], x.strides[last]);
  }

  size_t elements() const { return starts.size() * n; }

 private:
  // Returns whether a run continues through an axis of this size and stride.
  bool follows(int64_t size, int64_t step) const {
    return n <= 1 || size == 1 || step == stride * static_cast<int64_t>(n);
  }

  void repeat(int64_t size, int64_t step) {
    demand(starts.size() * static_cast<size_t>(size) <= kMostRuns, "a sum lies in too many pieces");
    const std::vector<int64_t> inner = std::move(starts);
    starts.clear();
    for (int64_t i = 0; i < size; ++i) {
      for (const int64_t start : inner) starts.push_back(i * step + start);
    }
  }
};

const View& checked(const ReduceSpec& s) {
  demand_real(s.x);
  demand_real(s.y);
  demand(0 <= s.y.view.rank && s.y.view.rank <= s.x.view.rank, "a sum has no more axes than its input");
  elements_of(s.x.view);
  return s.x.view;
}

View without_behind(const View& x, int rank) {
  View v = x;
  v.rank = rank;
  return v;
}

// A reduction: elements are combined two by two, beginning with `start`. At the end a mean is divided by the
// number of elements, and an extreme has +0 added, so that -0 becomes +0.
struct Function {
  const char* name;
  BinaryKind combine;
  float start;
  std::optional<BinaryKind> last;
};

constexpr Function kFunctions[] = {
    {"sum", BinaryKind::add, 0.0f, std::nullopt},
    {"mean", BinaryKind::add, 0.0f, BinaryKind::div},
    {"max", BinaryKind::max, -std::numeric_limits<float>::infinity(), BinaryKind::add},
    {"min", BinaryKind::min, std::numeric_limits<float>::infinity(), BinaryKind::add},
};

const Function& function_of(const std::string& name) {
  for (const Function& one : kFunctions) {
    if (name == one.name) return one;
  }
  refuse("no function of many numbers is called so");
}

class Reduce final : public Step {
 public:
  Reduce(const FloatOps& ops, const ReduceOps& extremes, const TransposeOps& turn, const ReduceSpec& s)
      : ops_(ops),
        extremes_(extremes),
        x_(checked(s)),
        y_(s.y.view),
        function_(function_of(s.function)),
        runs_(x_, y_.rank),
        operand_(function_.last == BinaryKind::div ? static_cast<float>(runs_.elements()) : 0.0f),
        walk_({without_behind(x_, y_.rank), y_}),
        most_(std::clamp(kSumPiece / std::max<size_t>(1, runs_.elements()), kFewestSums, kMostSums)),
        rows_(walk_.outer(last()), walk_.size(last()), most_),
        by_columns_((walk_.dense(0) || runs_.elements() <= kLanes) && walk_.size(last()) > 1),
        in_rows_(by_columns_ && !walk_.dense(0) && runs_.starts.size() == 1 && runs_.n > 0),
        reader_(ops, s.x, by_columns_ ? walk_.strides[last()][0] : runs_.stride),
        block_(ops, turn, s.x, runs_.stride, walk_.strides[last()][0]),
        writer_(ops, s.y, walk_.strides[last()][1]) {
    reads(x_);
    writes(y_);
  }

  size_t items() const override { return rows_.items(); }
  std::string name() const override { return name_of(&ops_); }
  size_t scratch() const override { return lanes_bytes() + row_scratch(buffered()) + row_scratch(most_); }

  void run(const Memory& memory, size_t begin, size_t end, uint8_t* scratch) const noexcept override {
    const RowBuffer in(scratch + lanes_bytes(), buffered(), 0);
    const RowBuffer out(scratch + lanes_bytes() + row_scratch(buffered()), most_, 0);
    visit_rows(walk_, last(), rows_, begin, end, [&](const auto& at, size_t n) {
      const uint8_t* const x = x_.at<uint8_t>(memory) + at[0];
      uint8_t* const y = y_.at<uint8_t>(memory) + at[1];
      float* const to = writer_.target(y, n, out);
      by_columns_ ? columns(x, n, reinterpret_cast<float*>(scratch), in, to) : rows(x, n, in, to);
      if (function_.last) ops_.binary[static_cast<size_t>(*function_.last)](to, 1, &operand_, 0, n, to);
      writer_.finish(to, 1.0f, y, n, out);
    });
  }

 private:
  int last() const { return walk_.rank - 1; }
  size_t lanes_bytes() const { return by_columns_ ? kLanes * most_ * sizeof(float) : 0; }
  size_t buffered() const { return in_rows_ ? most_ * runs_.n : by_columns_ ? most_ : runs_.elements(); }

  void combine(const float* a, const float* b, size_t n, float* y) const {
    ops_.binary[static_cast<size_t>(function_.combine)](a, 1, b, 1, n, y);
  }

  // n results at once. Lanes that get no elements are left out: they would hold `start`, which changes no
  // result.
  void columns(const uint8_t* x, size_t n, float* lanes, const RowBuffer& in, float* to) const {
    size_t used = std::clamp<size_t>(runs_.elements(), 1, kLanes);
    in_rows_ ? turn(x, n, lanes, in) : collect(x, n, lanes, used, in);
    for (size_t half = kLanes / 2; half > 0; half /= 2) {
      if (half >= used) continue;
      combine(lanes, lanes + half * n, (used - half) * n, lanes);
      used = half;
    }
    std::copy(lanes, lanes + n, to);
  }

  // Results of few elements each, which are dense rows: one lane per element.
  void turn(const uint8_t* x, size_t n, float* lanes, const RowBuffer& in) const {
    block_.read(x, runs_.n, n, lanes, in.bytes());
    const auto first = ops_.binary[static_cast<size_t>(function_.combine)];
    first(&function_.start, 0, lanes, 1, runs_.n * n, lanes);
  }

  // Results whose elements are neighbours in memory, or are few and gathered.
  void collect(const uint8_t* x, size_t n, float* lanes, size_t used, const RowBuffer& in) const {
    std::fill(lanes, lanes + used * n, function_.start);
    size_t lane = 0;
    for (const int64_t start : runs_.starts) {
      const uint8_t* from = x + start;
      for (size_t i = 0; i < runs_.n; ++i, from += runs_.stride) {
        float* const sums = lanes + lane * n;
        combine(sums, reader_.row(from, n, in), n, sums);
        lane = (lane + 1) % kLanes;
      }
    }
  }

  // One result after the other. Elements that are not dense are gathered first.
  void rows(const uint8_t* x, size_t n, const RowBuffer& in, float* to) const {
    const int64_t step = walk_.strides[last()][0];
    for (size_t i = 0; i < n; ++i, x += step) {
      if (runs_.starts.size() == 1) {
        to[i] = whole(reader_.row(x, runs_.n, in), runs_.n);
        continue;
      }
      float* part = in.floats();
      for (const int64_t start : runs_.starts) {
        reader_.copy(x + start, runs_.n, part, in.bytes());
        part += runs_.n;
      }
      to[i] = whole(in.floats(), runs_.elements());
    }
  }

  float whole(const float* x, size_t n) const {
    if (function_.combine == BinaryKind::add) return ops_.sum(x, n);
    const MinMax both = extremes_.minmax(x, n);
    return function_.combine == BinaryKind::max ? both.max : both.min;
  }

  const FloatOps& ops_;
  const ReduceOps& extremes_;
  View x_, y_;
  const Function& function_;
  Runs runs_;
  float operand_;
  Walk<2> walk_;
  size_t most_;
  Rows rows_;
  bool by_columns_, in_rows_;
  RowReader reader_;
  ColumnReader block_;
  RowWriter writer_;
};

}  // namespace

std::unique_ptr<Step> make_reduce(const FloatOps& ops, const ReduceOps& extremes, const TransposeOps& turn,
                                  const ReduceSpec& spec) {
  return std::make_unique<Reduce>(ops, extremes, turn, spec);
}

}  // namespace intact
