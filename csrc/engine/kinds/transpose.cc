// Axis i of y is axis perm[i] of x. Nothing runs where y lies as x does.
#include "engine/fields.h"
#include "engine/kinds.h"
#include "engine/kinds/moved.h"
#include "engine/kinds/views.h"

namespace intact::engine {

Transpose::Transpose(Fields& f)
    : PlanStep(f, {.strided = true}), x(f.reads("x")), y(f.writes("y")), perm(f.integers("perm")) {}

void Transpose::bind(Binding& binding) const {
  const std::vector<int> order(perm.begin(), perm.end());
  move(binding, x, turned(binding.view(x), order), y, binding.view(y));
}

std::unique_ptr<PlanStep> read_transpose(Fields& fields) { return std::make_unique<Transpose>(fields); }

}  // namespace intact::engine
