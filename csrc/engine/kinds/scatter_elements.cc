// x with x[index[i, j, ...], j, ...] = updates[i, j, ...], where axis is 0, or what the reduction makes of
// both (N58).
#include "engine/fields.h"
#include "engine/kinds.h"
#include "engine/kinds/scattered.h"
#include "engine/kinds/views.h"
#include "steps/scatter_elements.h"

namespace intact::engine {
namespace {

struct ScatterElements final : PlanStep {
  explicit ScatterElements(Fields& f)
      : PlanStep(f, {.strided = true}),
        x(f.operand("x")),
        index(f.operand("index")),
        updates(f.operand("updates")),
        y(f.writes("y")),
        axis(f.integer("axis")),
        reduction(f.text("reduction")) {}

  void bind(Binding& binding) const override {
    check_indices(binding, index, {binding.shape(x)[static_cast<int>(axis)]});
    const View to = binding.view(y);
    move(binding, x, binding.view(x), y, to);
    binding.add(make_scatter_elements(
        {binding.view(index), binding.view(updates), to, static_cast<int>(axis), reduction_of(reduction)}));
  }
  int x, index, updates, y;
  int64_t axis;
  std::string reduction;
};

}  // namespace

std::unique_ptr<PlanStep> read_scatter_elements(Fields& fields) {
  return std::make_unique<ScatterElements>(fields);
}

}  // namespace intact::engine
