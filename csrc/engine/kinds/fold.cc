// One number for the elements along an axis, which stays with size 1 (N60).
#include "engine/binding.h"
#include "engine/checker.h"
#include "engine/fields.h"
#include "engine/kinds.h"
#include "engine/sizes.h"
#include "steps/fold.h"

namespace intact::engine {
namespace {

struct Fold final : PlanStep {
  explicit Fold(Fields& f)
      : PlanStep(f, {.strided = true}),
        x(f.reads("x")),
        y(f.writes("y")),
        axis(f.integer("axis")),
        kind(fold_kind_of(f.one_of("function", kFoldNames)).value()) {}

  void check(const Checker& checker) const override {
    checker.axis(x, axis);
    checker.that(!checker.is_codes(x), "numbers");
    checker.one_dtype(x, y);
  }
  Shape output_shape(const Sizes& sizes) const override {
    Shape made = sizes.of(x);
    made[static_cast<int>(axis)] = 1;
    return made;
  }
  void bind(Binding& binding) const override {
    binding.add(make_fold({binding.view(x), binding.view(y), static_cast<int>(axis), kind}));
  }
  int x, y;
  int64_t axis;
  FoldKind kind;
};

}  // namespace

std::unique_ptr<PlanStep> read_fold(Fields& fields) { return std::make_unique<Fold>(fields); }

}  // namespace intact::engine
