// The place of the largest element along an axis, which stays with size 1 (N54).
#include "engine/binding.h"
#include "engine/fields.h"
#include "engine/kinds.h"
#include "steps/arg_max.h"

namespace intact::engine {
namespace {

struct ArgMax final : PlanStep {
  explicit ArgMax(Fields& f)
      : PlanStep(f, {.strided = true}),
        x(f.reads("x")),
        y(f.writes("y")),
        axis(f.integer("axis")),
        smallest(f.truth("smallest")),
        last(f.truth("last")) {}

  void bind(Binding& binding) const override {
    binding.add(make_arg_max(*binding.kernels.transpose,
                             {binding.view(x), binding.view(y), static_cast<int>(axis), smallest, last}));
  }
  int x, y;
  int64_t axis;
  bool smallest, last;
};

}  // namespace

std::unique_ptr<PlanStep> read_arg_max(Fields& fields) { return std::make_unique<ArgMax>(fields); }

}  // namespace intact::engine
