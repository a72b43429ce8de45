// y[i, j, k] = x[i, index[j], k] of x, a tensor or a constant; a run that meets an index out of range ends
// there.
#include "engine/fields.h"
#include "engine/kinds.h"
#include "engine/kinds/views.h"
#include "steps/gather.h"

namespace intact::engine {
namespace {

struct Gather final : PlanStep {
  explicit Gather(Fields& f)
      : PlanStep(f, {.follows = true, .strided = true}),
        x(f.operand("x")),
        index(f.operand("index")),
        y(f.writes("y")),
        axis(f.integer("axis")) {}

  void bind(Binding& binding) const override {
    check_indices(binding, index, {binding.shape(x)[static_cast<int>(axis)]});
    binding.add(make_gather({binding.view(x), binding.view(index), binding.view(y), static_cast<int>(axis)}));
  }

  int x, index, y;
  int64_t axis;
};

}  // namespace

std::unique_ptr<PlanStep> read_gather(Fields& fields) { return std::make_unique<Gather>(fields); }

}  // namespace intact::engine
