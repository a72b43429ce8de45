// An operation on tensors of plain numbers, element by element with broadcasting (N53).
#include "engine/checker.h"
#include "engine/fields.h"
#include "engine/kinds.h"
#include "engine/kinds/views.h"
#include "steps/elementwise.h"

namespace intact::engine {
namespace {

struct Elementwise final : PlanStep {
  explicit Elementwise(Fields& f)
      : PlanStep(f, {.follows = true, .by_image = true, .writes_parts = true}),
        operation(f.text("operation")),
        xs(f.many("xs", Role::operand)),
        y(f.writes("y")) {}

  // What each operation takes, the maker of the native step knows.
  void check(const Checker& checker) const override {
    checker.that(!xs.empty() && !checker.is_codes(y), "plain numbers");
    for (const int x : xs) checker.that(!checker.is_codes(x), "plain numbers");
  }

  void bind(Binding& binding) const override {
    ElementwiseSpec spec{operation, {}, binding.view(y)};
    for (const int x : xs) spec.xs.push_back(spread(binding.view(x), binding.shape(y)));
    binding.add(make_elementwise(*binding.kernels.elementwise, spec));
  }

  std::string operation;
  std::vector<int> xs;
  int y;
};

}  // namespace

std::unique_ptr<PlanStep> read_elementwise(Fields& fields) { return std::make_unique<Elementwise>(fields); }

}  // namespace intact::engine
