// float32 to codes of 16 bits (N11), less the least one, as two tensors of bytes (N62).
#include "engine/binding.h"
#include "engine/fields.h"
#include "engine/kinds.h"
#include "engine/kinds/formats.h"
#include "steps/split_quantize.h"

namespace intact::engine {
namespace {

struct SplitQuantize final : PlanStep {
  explicit SplitQuantize(Fields& f)
      : PlanStep(f, {.follows = true, .by_image = true}),
        x(f.reads("x")),
        high(f.writes("high")),
        low(f.writes("low")),
        format(format_named(f.text("format"))),
        scale(f.real("scale")),
        zero_point(f.integer("zero_point")) {}

  void check(const Checker& checker) const override {
    checker.that(format.high - format.low == 65535, "a format of 16 bits");
    check_grid(checker, format, scale, zero_point);
    checker.codes(high, low);
    const int64_t above = zero_point - format.low;
    const double high_scale = static_cast<float>(256 * scale);
    checker.that(*checker.grid(high) == Codes{high_scale, static_cast<int>(above >> 8), false, 0, 255},
                 "its grid");
    checker.that(*checker.grid(low) == Codes{scale, static_cast<int>(above & 255), false, 0, 255},
                 "its grid");
  }

  void bind(Binding& binding) const override {
    binding.add(make_split_quantize(
        *binding.kernels.quantize, *binding.kernels.transpose,
        {binding.view(x), binding.view(high), binding.view(low), static_cast<float>(scale),
         static_cast<int32_t>(format.low - zero_point), static_cast<int32_t>(format.high - zero_point)}));
  }

  int x, high, low;
  const WideFormat& format;
  double scale;
  int64_t zero_point;
};

}  // namespace

std::unique_ptr<PlanStep> read_split_quantize(Fields& fields) {
  return std::make_unique<SplitQuantize>(fields);
}

}  // namespace intact::engine
