// Running sums along an axis (N54).
#include "engine/binding.h"
#include "engine/fields.h"
#include "engine/kinds.h"
#include "steps/cum_sum.h"

namespace intact::engine {
namespace {

struct CumSum final : PlanStep {
  explicit CumSum(Fields& f)
      : PlanStep(f, {.strided = true}),
        x(f.reads("x")),
        y(f.writes("y")),
        axis(f.integer("axis")),
        exclusive(f.truth("exclusive")),
        reverse(f.truth("reverse")) {}

  void bind(Binding& binding) const override {
    binding.add(make_cum_sum({binding.view(x), binding.view(y), static_cast<int>(axis), exclusive, reverse}));
  }
  int x, y;
  int64_t axis;
  bool exclusive, reverse;
};

}  // namespace

std::unique_ptr<PlanStep> read_cum_sum(Fields& fields) { return std::make_unique<CumSum>(fields); }

}  // namespace intact::engine
