#include "steps/cum_sum.h"

#include <algorithm>

#include "steps/common/line_step.h"

namespace intact {
namespace {

using namespace tuning::indexing;

template <class T>
class CumSum final : public LineStep {
 public:
  explicit CumSum(const CumSumSpec& s) : LineStep(s.x, s.y, s.axis), s_(s) { demand_same_sizes(s.x, s.y); }

  std::string name() const override { return "cum_sum"; }

  void run_lines(const uint8_t* x, uint8_t* y, size_t n, uint8_t*) const noexcept override {
    const bool lines = from_.stride == kUnit && to_.stride == kUnit;
    const bool dense = stride(0) == kUnit && stride(1) == kUnit;
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
  }

 private:
  static constexpr int64_t kUnit = sizeof(T);

  // Many lines at once, element by element. With constant strides the compiler vectorizes over lines, and
  // keeps the sum of a single line in a register.
  [[gnu::always_inline]] void beside(const uint8_t* x, uint8_t* y, size_t n, int64_t from, int64_t to) const {
    const int64_t first = s_.reverse ? from_.size - 1 : 0, step = s_.reverse ? -1 : 1;
    T sums[kLines];
    std::fill_n(sums, n, T{0});
    for (int64_t k = 0; k < from_.size; ++k) {
      const int64_t here = first + step * k, added = s_.exclusive ? here - step : here;
      const bool none = s_.exclusive && k == 0, alone = k == (s_.exclusive ? 1 : 0);
      const uint8_t* const row = x + added * from_.stride;
      uint8_t* const target = y + here * to_.stride;
      for (size_t i = 0; i < n; ++i) {
        const auto place = static_cast<int64_t>(i);
        if (!none) {
          const T next = load<T>(row + place * from);
          sums[i] = alone ? next : sum(sums[i], next);
        }
        store(target + place * to, sums[i]);
      }
    }
  }

  CumSumSpec s_;
};

}  // namespace

std::unique_ptr<Step> make_cum_sum(const CumSumSpec& s) {
  demand(s.x.type == s.y.type, "x and y have one type");
  switch (s.x.type) {
    case Type::f32: return std::make_unique<CumSum<float>>(s);
    case Type::i32: return std::make_unique<CumSum<int32_t>>(s);
    case Type::i64: return std::make_unique<CumSum<int64_t>>(s);
    default: refuse("sums are float32, int32 or int64");
  }
}

}  // namespace intact
