#include "steps/interpolate.h"

#include <utility>

#include "steps/common/line_step.h"

namespace intact {
namespace {

using namespace tuning::indexing;

constexpr int64_t kFloat = sizeof(float);

class Interpolate final : public LineStep {
 public:
  explicit Interpolate(InterpolateSpec s) : LineStep(s.x, s.y, s.axis), s_(std::move(s)) {
    demand(s_.x.type == Type::f32 && s_.y.type == Type::f32, "values between elements are float32");
    demand(s_.terms > 0 && s_.places.size() == s_.weights.size() &&
               s_.places.size() == static_cast<uint64_t>(to_.size) * s_.terms,
           "each element of y has `terms` places and weights");
    for (const int64_t place : s_.places) {
      demand(0 <= place && place < from_.size, "a place is out of range");
    }
  }

  std::string name() const override { return "interpolate"; }

  void run_lines(const uint8_t* x, uint8_t* y, size_t n, uint8_t*) const noexcept override {
    const bool lines = from_.stride == kFloat, dense = stride(0) == kFloat && stride(1) == kFloat;
    if (lines) {
      for (size_t i = 0; i < n; ++i) line(x, y, static_cast<int64_t>(i));
    } else if (dense) {
      beside(x, y, n, kFloat, kFloat);
    } else {
      beside(x, y, n, stride(0), stride(1));
    }
  }

 private:
  // One line whose elements are neighbours in memory.
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

  // Many lines at once. With constant strides the compiler vectorizes the loop.
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

std::unique_ptr<Step> make_interpolate(InterpolateSpec spec) {
  return std::make_unique<Interpolate>(std::move(spec));
}

}  // namespace intact
