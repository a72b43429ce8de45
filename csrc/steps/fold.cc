#include "steps/fold.h"

#include <algorithm>
#include <limits>

#include "steps/common/line_step.h"

namespace intact {
namespace {

using namespace tuning::indexing;

template <class T, FoldKind kKind>
class Fold final : public LineStep {
 public:
  explicit Fold(const FoldSpec& s) : LineStep(s.x, s.y, s.axis) {
    demand(to_.size == 1, "the axis of y has size 1");
  }

  std::string name() const override { return "fold"; }

  void run_lines(const uint8_t* x, uint8_t* y, size_t n, uint8_t*) const noexcept override {
    const bool lines = from_.stride == kUnit, dense = stride(0) == kUnit;
    T totals[kLines];
    if (lines) {
      for (size_t i = 0; i < n; ++i) totals[i] = line(x + static_cast<int64_t>(i) * stride(0));
    } else if (dense) {
      beside(x, n, kUnit, totals);
    } else {
      beside(x, n, stride(0), totals);
    }
    for (size_t i = 0; i < n; ++i) store(y + static_cast<int64_t>(i) * stride(1), totals[i]);
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
    if constexpr (kKind == FoldKind::max) return a < b || b != b ? b : a;  // a NaN stays a NaN
    return b < a || b != b ? b : a;
  }

  T line(const uint8_t* x) const {
    T total = start();
    for (int64_t k = 0; k < from_.size; ++k) total = both(total, load<T>(x + k * kUnit));
    return total;
  }

  // Many lines at once. With a constant stride the compiler vectorizes the loop.
  [[gnu::always_inline]] void beside(const uint8_t* x, size_t n, int64_t from, T* totals) const {
    std::fill(totals, totals + n, start());
    for (int64_t k = 0; k < from_.size; ++k) {
      const uint8_t* const row = x + k * from_.stride;
      for (size_t i = 0; i < n; ++i)
        totals[i] = both(totals[i], load<T>(row + static_cast<int64_t>(i) * from));
    }
  }
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

}  // namespace intact
