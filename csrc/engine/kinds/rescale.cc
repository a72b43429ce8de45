// Codes of one grid to codes of another (N28).
#include "engine/fields.h"
#include "engine/kinds.h"
#include "engine/kinds/views.h"

namespace intact::engine {
namespace {

struct Rescale final : PlanStep {
  explicit Rescale(Fields& f)
      : PlanStep(f, {.follows = true, .by_image = true, .writes_parts = true}),
        x(f.reads("x")),
        y(f.writes("y")) {
    in_place = {x};
  }
  void bind(Binding& binding) const override { move(binding, x, binding.view(x), y, binding.view(y)); }
  int x, y;
};

}  // namespace

std::unique_ptr<PlanStep> read_rescale(Fields& fields) { return std::make_unique<Rescale>(fields); }

}  // namespace intact::engine
