// What a Q/DQ pair makes of floats where nothing computes with its codes (N56).
#include "engine/fields.h"
#include "engine/kinds.h"
#include "engine/kinds/formats.h"
#include "engine/kinds/views.h"
#include "steps/copy.h"
#include "steps/fake_quantize.h"

namespace intact::engine {
namespace {

// The axis along which neighbours lie.
int innermost(const View& v) {
  int found = 0;
  bool any = false;
  for (int i = 0; i < v.rank; ++i) {
    if (v.sizes[i] <= 1 || (any && v.strides[i] >= v.strides[found])) continue;
    found = i;
    any = true;
  }
  return found;
}

struct FakeQuantize final : PlanStep {
  explicit FakeQuantize(Fields& f)
      : PlanStep(f, {.follows = true, .by_image = true, .writes_parts = true}),
        x(f.reads("x")),
        y(f.writes("y")),
        format(format_named(f.text("format"))),
        scale(f.real("scale")),
        zero_point(f.integer("zero_point")),
        low(f.integer_or_none("low").value_or(format.low)),
        high(f.integer_or_none("high").value_or(format.high)) {
    in_place = {x};
  }

  void check(const Checker& checker) const override {
    check_grid(checker, format, scale, zero_point);
    checker.that(format.low <= low && low <= high && high <= format.high, "ends within the format, in order");
  }

  // Where floats lie in another order they are moved first, by what transposes in tiles.
  void bind(Binding& binding) const override {
    RealIn from = binding.real_in(x);
    const RealOut to = binding.real_out(y);
    const bool floats = binding.grid(x) == nullptr && binding.grid(y) == nullptr;
    if (floats && innermost(from.view) != innermost(to.view)) {
      binding.add(make_copy(*binding.kernels.transpose, {from.view, to.view}));
      from = {to.view};
    }
    binding.add(make_fake_quantize(*binding.kernels.float_steps, *binding.kernels.transpose,
                                   *binding.kernels.fake_quantize,
                                   {from, to, static_cast<float>(scale), static_cast<float>(low - zero_point),
                                    static_cast<float>(high - zero_point)}));
  }

  int x, y;
  const WideFormat& format;
  double scale;
  int64_t zero_point, low, high;
};

}  // namespace

std::unique_ptr<PlanStep> read_fake_quantize(Fields& fields) {
  return std::make_unique<FakeQuantize>(fields);
}

}  // namespace intact::engine
