// One number for the elements along an axis, which stays with size 1 (N60).
#include "engine/binding.h"
#include "engine/fields.h"
#include "engine/kinds.h"
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
