// Bounds of floats (N49); none: unbounded.
#include <limits>

#include "engine/binding.h"
#include "engine/fields.h"
#include "engine/kinds.h"
#include "steps/clip.h"

namespace intact::engine {
namespace {

struct Clip final : PlanStep {
  explicit Clip(Fields& f)
      : PlanStep(f, {.follows = true, .by_image = true, .writes_parts = true}),
        x(f.reads("x")),
        y(f.writes("y")),
        low(f.real_or_none("low")),
        high(f.real_or_none("high")) {
    in_place = {x};
  }
  void bind(Binding& binding) const override {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    binding.add(
        make_clip(*binding.kernels.float_steps, *binding.kernels.transpose,
                  {binding.real_in(x), binding.real_out(y), static_cast<float>(low.value_or(-kInfinity)),
                   static_cast<float>(high.value_or(kInfinity))}));
  }
  int x, y;
  std::optional<double> low, high;
};

}  // namespace

std::unique_ptr<PlanStep> read_clip(Fields& fields) { return std::make_unique<Clip>(fields); }

}  // namespace intact::engine
