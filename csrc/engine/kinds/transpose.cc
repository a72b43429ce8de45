// Axis i of y is axis perm[i] of x. Nothing runs where y lies as x does.
#include "engine/checker.h"
#include "engine/fields.h"
#include "engine/kinds.h"
#include "engine/kinds/moved.h"
#include "engine/kinds/views.h"
#include "engine/sizes.h"

namespace intact::engine {

Transpose::Transpose(Fields& f)
    : PlanStep(f, {.strided = true}), x(f.reads("x")), y(f.writes("y")), perm(f.integers("perm")) {}

void Transpose::check(const Checker& checker) const {
  checker.one_dtype(x, y);
  checker.per_axis(x, y, perm.size());
  std::vector<int64_t> axes = perm;
  std::sort(axes.begin(), axes.end());
  for (size_t i = 0; i < axes.size(); ++i) checker.that(axes[i] == static_cast<int64_t>(i), "a permutation");
}

Shape Transpose::output_shape(const Sizes& sizes) const {
  Shape made;
  for (const int64_t axis : perm) made.push(sizes.of(x)[static_cast<int>(axis)]);
  return made;
}

void Transpose::bind(Binding& binding) const {
  const std::vector<int> order(perm.begin(), perm.end());
  move(binding, x, turned(binding.view(x), order), y, binding.view(y));
}

std::unique_ptr<PlanStep> read_transpose(Fields& fields) { return std::make_unique<Transpose>(fields); }

}  // namespace intact::engine
