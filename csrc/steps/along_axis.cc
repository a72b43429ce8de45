#include "steps/along_axis.h"

#include <algorithm>
#include <limits>

#include "steps/chunks.h"
#include "steps/lines.h"

namespace intact {
namespace {

constexpr int64_t kFloat = sizeof(float);
constexpr size_t kChunk = 256;  // places beside each other that go along the axis together

// What the kinds share: chunks of lines. Views are declared as they are, and walked by their beginnings.
class Lines : public Chunks<2> {
 public:
  Lines(const View& x, const View& y, int axis)
      : Chunks({beginnings(x, axis), beginnings(y, axis)}, kChunk, false),
        x_(x),
        y_(y),
        from_(line_of(x, axis)),
        to_(line_of(y, axis)) {
    elements_of(x);
    elements_of(y);
    reads(x);
    writes(y);
  }

 protected:
  View x_, y_;
  Line from_, to_;
};

template <class T, FoldKind kKind>
class Fold final : public Lines {
 public:
  explicit Fold(const FoldSpec& s) : Lines(s.x, s.y, s.axis) {
    demand(to_.size == 1, "a line becomes one number");
  }

  std::string name() const override { return "fold"; }

  void run(const Memory& memory, size_t begin, size_t end, uint8_t*) const noexcept override {
    const bool lines = from_.stride == kUnit, dense = stride(0) == kUnit;
    each(begin, end, [&](const auto& at, size_t n) {
      const uint8_t* const x = x_.at<uint8_t>(memory) + at[0];
      uint8_t* const y = y_.at<uint8_t>(memory) + at[1];
      T totals[kChunk];
      if (lines) {
        for (size_t i = 0; i < n; ++i) totals[i] = line(x + static_cast<int64_t>(i) * stride(0));
      } else if (dense) {
        beside(x, n, kUnit, totals);
      } else {
        beside(x, n, stride(0), totals);
      }
      for (size_t i = 0; i < n; ++i) store(y + static_cast<int64_t>(i) * stride(1), totals[i]);
    });
  }

 private:
  static constexpr int64_t kUnit = sizeof(T);

  static T start() {
    using Numbers = std::numeric_limits<T>;
    if constexpr (kKind == FoldKind::max)
      return Numbers::has_infinity ? -Numbers::infinity() : Numbers::lowest();
    if constexpr (kKind == FoldKind::min) return Numbers::has_infinity ? Numbers::infinity() : Numbers::max();
    return kKind == FoldKind::prod ? T{1} : T{0};
  }
  static T both(T a, T b) {
    if constexpr (kKind == FoldKind::sum) return sum(a, b);
    if constexpr (kKind == FoldKind::prod) return product(a, b);
    if constexpr (kKind == FoldKind::max) return a < b || b != b ? b : a;  // a NaN stays
    return b < a || b != b ? b : a;
  }

  T line(const uint8_t* x) const {
    T total = start();
    for (int64_t k = 0; k < from_.size; ++k) total = both(total, load<T>(x + k * kUnit));
    return total;
  }

  // Many lines at once. Inlined for a stride that is known: then the loop is one of vectors.
  [[gnu::always_inline]] void beside(const uint8_t* x, size_t n, int64_t from, T* totals) const {
    std::fill(totals, totals + n, start());
    for (int64_t k = 0; k < from_.size; ++k) {
      const uint8_t* const row = x + k * from_.stride;
      for (size_t i = 0; i < n; ++i)
        totals[i] = both(totals[i], load<T>(row + static_cast<int64_t>(i) * from));
    }
  }
};

template <class T>
class CumSum final : public Lines {
 public:
  explicit CumSum(const CumSumSpec& s) : Lines(s.x, s.y, s.axis), s_(s) { demand_same_sizes(s.x, s.y); }

  std::string name() const override { return "cum_sum"; }

  void run(const Memory& memory, size_t begin, size_t end, uint8_t*) const noexcept override {
    const int64_t first = s_.reverse ? from_.size - 1 : 0, step = s_.reverse ? -1 : 1;
    each(begin, end, [&](const auto& at, size_t n) {
      const uint8_t* const x = x_.at<uint8_t>(memory) + at[0];
      uint8_t* const y = y_.at<uint8_t>(memory) + at[1];
      for (int64_t k = 0; k < from_.size; ++k) {
        const int64_t here = first + step * k, added = s_.exclusive ? here - step : here;
        for (size_t i = 0; i < n; ++i) {
          const auto place = static_cast<int64_t>(i);
          uint8_t* const to = y + here * to_.stride + place * stride(1);
          if (s_.exclusive && k == 0) {
            store(to, T{0});
            continue;
          }
          const T next = load<T>(x + added * from_.stride + place * stride(0));
          const bool alone = k == (s_.exclusive ? 1 : 0);
          store(to, alone ? next : sum(load<T>(to - step * to_.stride), next));
        }
      }
    });
  }

 private:
  CumSumSpec s_;
};

template <class T>
class ArgMax final : public Lines {
 public:
  explicit ArgMax(const ArgMaxSpec& s) : Lines(s.x, s.y, s.axis), s_(s) {
    demand(s.y.type == Type::i64 && to_.size == 1, "places are int64, one for each line");
    demand(from_.size > 0 || items() == 0, "a line is empty");
  }

  std::string name() const override { return "arg_max"; }

  void run(const Memory& memory, size_t begin, size_t end, uint8_t*) const noexcept override {
    each(begin, end, [&](const auto& at, size_t n) {
      const uint8_t* const x = x_.at<uint8_t>(memory) + at[0];
      uint8_t* const y = y_.at<uint8_t>(memory) + at[1];
      T best[kChunk];
      int64_t places[kChunk];
      for (int64_t k = 0; k < from_.size; ++k) {
        const uint8_t* const row = x + k * from_.stride;
        for (size_t i = 0; i < n; ++i) {
          const T next = load<T>(row + static_cast<int64_t>(i) * stride(0));
          const bool wins = k == 0 || better(next, best[i]);
          best[i] = wins ? next : best[i];
          places[i] = wins ? k : places[i];
        }
      }
      for (size_t i = 0; i < n; ++i) store(y + static_cast<int64_t>(i) * stride(1), places[i]);
    });
  }

 private:
  bool better(T next, T best) const {
    const bool none = next != next, held = best != best;
    if (none || held) return none && (s_.last || !held);
    if (next == best) return s_.last;
    return s_.smallest ? next < best : best < next;
  }

  ArgMaxSpec s_;
};

class Interpolate final : public Lines {
 public:
  explicit Interpolate(InterpolateSpec s) : Lines(s.x, s.y, s.axis), s_(std::move(s)) {
    demand(s_.x.type == Type::f32 && s_.y.type == Type::f32, "values between elements are float32");
    demand(s_.terms > 0 && s_.places.size() == s_.weights.size() &&
               s_.places.size() == static_cast<uint64_t>(to_.size) * s_.terms,
           "each element of y has as many places and weights");
    for (const int64_t place : s_.places) {
      demand(0 <= place && place < from_.size, "a place is out of range");
    }
  }

  std::string name() const override { return "interpolate"; }

  void run(const Memory& memory, size_t begin, size_t end, uint8_t*) const noexcept override {
    const bool lines = from_.stride == kFloat, dense = stride(0) == kFloat && stride(1) == kFloat;
    each(begin, end, [&](const auto& at, size_t n) {
      const uint8_t* const x = x_.at<uint8_t>(memory) + at[0];
      uint8_t* const y = y_.at<uint8_t>(memory) + at[1];
      if (lines) {
        for (size_t i = 0; i < n; ++i) line(x, y, static_cast<int64_t>(i));
      } else if (dense) {
        beside(x, y, n, kFloat, kFloat);
      } else {
        beside(x, y, n, stride(0), stride(1));
      }
    });
  }

 private:
  // One line from end to end: its elements are neighbours.
  void line(const uint8_t* x, uint8_t* y, int64_t i) const {
    const uint8_t* const from = x + i * stride(0);
    uint8_t* const to = y + i * stride(1);
    size_t term = 0;
    for (int64_t k = 0; k < to_.size; ++k) {
      float sum = s_.weights[term] * load<float>(from + s_.places[term] * kFloat);
      ++term;
      for (size_t t = 1; t < s_.terms; ++t, ++term) {
        sum = sum + s_.weights[term] * load<float>(from + s_.places[term] * kFloat);
      }
      store(to + k * to_.stride, sum);
    }
  }

  // Many lines at once. Inlined for strides that are known: then the loop is one of vectors.
  [[gnu::always_inline]] void beside(const uint8_t* x, uint8_t* y, size_t n, int64_t from, int64_t to) const {
    size_t term = 0;
    for (int64_t k = 0; k < to_.size; ++k) {
      float sums[kChunk];
      for (size_t t = 0; t < s_.terms; ++t, ++term) {
        const uint8_t* const row = x + s_.places[term] * from_.stride;
        const float weight = s_.weights[term];
        for (size_t i = 0; i < n; ++i) {
          const float product = weight * load<float>(row + static_cast<int64_t>(i) * from);
          sums[i] = t == 0 ? product : sums[i] + product;
        }
      }
      uint8_t* const row = y + k * to_.stride;
      for (size_t i = 0; i < n; ++i) store(row + static_cast<int64_t>(i) * to, sums[i]);
    }
  }

  InterpolateSpec s_;
};

}  // namespace

std::unique_ptr<Step> make_fold(const FoldSpec& s) {
  demand(s.x.type == s.y.type, "x and y have one type");
  const auto of = [&]<class T>(T) -> std::unique_ptr<Step> {
    switch (s.kind) {
      case FoldKind::sum: return std::make_unique<Fold<T, FoldKind::sum>>(s);
      case FoldKind::prod: return std::make_unique<Fold<T, FoldKind::prod>>(s);
      case FoldKind::max: return std::make_unique<Fold<T, FoldKind::max>>(s);
      default: return std::make_unique<Fold<T, FoldKind::min>>(s);
    }
  };
  if (s.x.type == Type::i32) return of(int32_t{});
  if (s.x.type == Type::i64) return of(int64_t{});
  if (s.x.type == Type::f64) return of(double{});
  demand(s.x.type == Type::f32 && s.kind == FoldKind::prod,
         "folds are of int32, int64 or float64, products of float32 too");
  return std::make_unique<Fold<float, FoldKind::prod>>(s);
}

std::unique_ptr<Step> make_cum_sum(const CumSumSpec& s) {
  demand(s.x.type == s.y.type, "x and y have one type");
  switch (s.x.type) {
    case Type::f32: return std::make_unique<CumSum<float>>(s);
    case Type::i32: return std::make_unique<CumSum<int32_t>>(s);
    case Type::i64: return std::make_unique<CumSum<int64_t>>(s);
    default: refuse("sums are float32, int32 or int64");
  }
}

std::unique_ptr<Step> make_arg_max(const ArgMaxSpec& s) {
  switch (s.x.type) {
    case Type::f32: return std::make_unique<ArgMax<float>>(s);
    case Type::i32: return std::make_unique<ArgMax<int32_t>>(s);
    case Type::i64: return std::make_unique<ArgMax<int64_t>>(s);
    case Type::u8: return std::make_unique<ArgMax<uint8_t>>(s);
    case Type::i8: return std::make_unique<ArgMax<int8_t>>(s);
    default: refuse("elements are float32, int32, int64, uint8 or int8");
  }
}

std::unique_ptr<Step> make_interpolate(InterpolateSpec spec) {
  return std::make_unique<Interpolate>(std::move(spec));
}

}  // namespace intact
