// y[i, j, ...] = x[index[i, j, ...], j, ...], where axis is 0; a run that meets an index out of range ends
// there.
#include "engine/fields.h"
#include "engine/kinds.h"
#include "engine/kinds/views.h"
#include "steps/gather_elements.h"

namespace intact::engine {
namespace {

struct GatherElements final : PlanStep {
  explicit GatherElements(Fields& f)
      : PlanStep(f, {.strided = true}),
        x(f.operand("x")),
        index(f.operand("index")),
        y(f.writes("y")),
        axis(f.integer("axis")) {}

  void bind(Binding& binding) const override {
    check_indices(binding, index, {binding.shape(x)[static_cast<int>(axis)]});
    binding.add(make_gather_elements(
        {binding.view(x), binding.view(index), binding.view(y), static_cast<int>(axis)}));
  }
  int x, index, y;
  int64_t axis;
};

}  // namespace

std::unique_ptr<PlanStep> read_gather_elements(Fields& fields) {
  return std::make_unique<GatherElements>(fields);
}

}  // namespace intact::engine
