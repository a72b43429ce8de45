#include "steps/along_axis.h"

#include <algorithm>
#include <limits>

#include "base/tuning.h"
#include "steps/chunks.h"
#include "steps/lines.h"

namespace intact {
namespace {

using namespace tuning::picks;

constexpr int64_t kFloat = sizeof(float);

// What the kinds share: chunks of lines. Views are declared as they are, and walked by their beginnings.
class Lines : public Chunks<2> {
 public:
  Lines(const View& x, const View& y, int axis)
      : Chunks({beginnings(x, axis), beginnings(y, axis)}, kLines, false),
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
      T totals[kLines];
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
    const bool lines = from_.stride == kUnit && to_.stride == kUnit;
    const bool dense = stride(0) == kUnit && stride(1) == kUnit;
    each(begin, end, [&](const auto& at, size_t n) {
      const uint8_t* const x = x_.at<uint8_t>(memory) + at[0];
      uint8_t* const y = y_.at<uint8_t>(memory) + at[1];
      if (lines) {
        for (size_t i = 0; i < n; ++i) {
          const auto place = static_cast<int64_t>(i);
          beside(x + place * stride(0), y + place * stride(1), 1, kUnit, kUnit);
        }
      } else if (dense) {
        beside(x, y, n, kUnit, kUnit);
      } else {
        beside(x, y, n, stride(0), stride(1));
      }
    });
  }

 private:
  static constexpr int64_t kUnit = sizeof(T);

  // Many lines at once, element by element. Inlined for strides that are known, so that lines are vectors,
  // and for one line, whose sum stays in a register.
  [[gnu::always_inline]] void beside(const uint8_t* x, uint8_t* y, size_t n, int64_t from, int64_t to) const {
    const int64_t first = s_.reverse ? from_.size - 1 : 0, step = s_.reverse ? -1 : 1;
    T sums[kLines];
    for (int64_t k = 0; k < from_.size; ++k) {
      const int64_t here = first + step * k, added = s_.exclusive ? here - step : here;
      const bool none = s_.exclusive && k == 0, alone = k == (s_.exclusive ? 1 : 0);
      const uint8_t* const row = x + added * from_.stride;
      uint8_t* const target = y + here * to_.stride;
      for (size_t i = 0; i < n; ++i) {
        const auto place = static_cast<int64_t>(i);
        if (none) {
          sums[i] = T{0};
        } else {
          const T next = load<T>(row + place * from);
          sums[i] = alone ? next : sum(sums[i], next);
        }
        store(target + place * to, sums[i]);
      }
    }
  }

  CumSumSpec s_;
};

// Which element of a line wins, and where it stands. Loops over it are vectors: no condition branches.
template <class T, bool kSmallest, bool kLast>
struct Race {
  // Whether an element beats the one that leads, which stands before it.
  static bool wins(T next, T best) {
    const bool further = kSmallest ? next < best : best < next, none = next != next;
    if constexpr (kLast) return further | (next == best) | none;
    return further | (none & (best == best));
  }
  // The same of elements in any order.
  static bool wins(T next, int32_t place, T best, int32_t held) {
    const bool alike = next == best || (next != next && best != best);
    return alike ? (kLast ? held < place : place < held) : wins(next, best);
  }
  // Elements of n lines, each number `k` of its own.
  static void go(const uint8_t* row, size_t n, int32_t k, T* best, int32_t* places) {
    for (size_t i = 0; i < n; ++i) {
      const T next = load<T>(row + i * sizeof(T));
      const bool won = wins(next, best[i]);
      best[i] = won ? next : best[i];
      places[i] = won ? k : places[i];
    }
  }
};

template <class T, bool kSmallest, bool kLast>
class ArgMax final : public Lines {
  using Of = Race<T, kSmallest, kLast>;

 public:
  ArgMax(const TransposeOps& turn, const ArgMaxSpec& s)
      : Lines(s.x, s.y, s.axis), turn_(sizeof(T) == 1 ? turn.bytes : turn.words) {
    demand(s.y.type == Type::i64 && to_.size == 1, "places are int64, one for each line");
    demand(from_.size > 0 || items() == 0, "a line is empty");
    demand(from_.size <= std::numeric_limits<int32_t>::max(), "a line is too long");
  }

  std::string name() const override { return "arg_max"; }
  size_t scratch() const override { return kTurned * kLines * sizeof(T); }

  void run(const Memory& memory, size_t begin, size_t end, uint8_t* scratch) const noexcept override {
    const bool dense = from_.stride == kUnit;
    each(begin, end, [&](const auto& at, size_t n) {
      const uint8_t* const x = x_.at<uint8_t>(memory) + at[0];
      uint8_t* const y = y_.at<uint8_t>(memory) + at[1];
      int32_t places[kLines];
      if (dense && (from_.size >= kLongLine || n < kFewLines)) {
        for (size_t i = 0; i < n; ++i) places[i] = line(x + static_cast<int64_t>(i) * stride(0));
      } else {
        beside(x, n, dense && sizeof(T) <= 4, scratch, places);
      }
      for (size_t i = 0; i < n; ++i) {
        store(y + static_cast<int64_t>(i) * stride(1), static_cast<int64_t>(places[i]));
      }
    });
  }

 private:
  static constexpr int64_t kUnit = sizeof(T);

  // One line, which kRunners share: each takes every sixteenth element.
  int32_t line(const uint8_t* x) const {
    T best[kRunners];
    int32_t places[kRunners] = {};
    const auto runners = static_cast<int64_t>(kRunners);
    const int64_t rounds = from_.size / runners;
    const int64_t rest = rounds * runners;
    int32_t place = 0;
    T leader = load<T>(x);
    if (rounds > 0) {
      for (size_t i = 0; i < kRunners; ++i) best[i] = load<T>(x + i * sizeof(T));
      for (int64_t k = 1; k < rounds; ++k) {
        Of::go(x + k * runners * kUnit, kRunners, static_cast<int32_t>(k), best, places);
      }
      leader = best[0];
      place = places[0] * static_cast<int32_t>(kRunners);
      for (size_t i = 1; i < kRunners; ++i) {
        const int32_t at = places[i] * static_cast<int32_t>(kRunners) + static_cast<int32_t>(i);
        if (!Of::wins(best[i], at, leader, place)) continue;
        leader = best[i];
        place = at;
      }
    }
    for (int64_t k = std::max<int64_t>(rest, 1); k < from_.size; ++k) {
      const T next = load<T>(x + k * kUnit);
      if (!Of::wins(next, leader)) continue;
      leader = next;
      place = static_cast<int32_t>(k);
    }
    return place;
  }

  // Many lines at once, element by element: what does not lie beside each other is brought there.
  void beside(const uint8_t* x, size_t n, bool turns, uint8_t* scratch, int32_t* places) const {
    T best[kLines];
    const size_t row = n * sizeof(T);
    for (int64_t from = 0; from < from_.size; from += turns ? kTurned : 1) {
      const int64_t count = turns ? std::min<int64_t>(kTurned, from_.size - from) : 1;
      const uint8_t* rows = x + from * from_.stride;
      if (turns) {
        turn_(rows, stride(0), n, static_cast<size_t>(count), scratch, static_cast<ptrdiff_t>(row));
        rows = scratch;
      } else if (stride(0) != kUnit) {
        for (size_t i = 0; i < n; ++i) {
          std::memcpy(scratch + i * sizeof(T), rows + static_cast<int64_t>(i) * stride(0), sizeof(T));
        }
        rows = scratch;
      }
      for (int64_t k = 0; k < count; ++k, rows += row) {
        if (from + k == 0) {
          std::memcpy(best, rows, row);
          std::fill(places, places + n, 0);
        } else {
          Of::go(rows, n, static_cast<int32_t>(from + k), best, places);
        }
      }
    }
  }

  void (*turn_)(const uint8_t*, ptrdiff_t, size_t, size_t, uint8_t*, ptrdiff_t);
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
      float sums[kLines];
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

std::unique_ptr<Step> make_arg_max(const TransposeOps& turn, const ArgMaxSpec& s) {
  const auto of = [&]<class T>(T) -> std::unique_ptr<Step> {
    if (s.smallest && s.last) return std::make_unique<ArgMax<T, true, true>>(turn, s);
    if (s.smallest) return std::make_unique<ArgMax<T, true, false>>(turn, s);
    if (s.last) return std::make_unique<ArgMax<T, false, true>>(turn, s);
    return std::make_unique<ArgMax<T, false, false>>(turn, s);
  };
  switch (s.x.type) {
    case Type::f32: return of(float{});
    case Type::i32: return of(int32_t{});
    case Type::i64: return of(int64_t{});
    case Type::u8: return of(uint8_t{});
    case Type::i8: return of(int8_t{});
    default: refuse("elements are float32, int32, int64, uint8 or int8");
  }
}

std::unique_ptr<Step> make_interpolate(InterpolateSpec spec) {
  return std::make_unique<Interpolate>(std::move(spec));
}

}  // namespace intact
