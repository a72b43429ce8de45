// An element-wise function of floats, which may come and go as codes.
#include "engine/binding.h"
#include "engine/fields.h"
#include "engine/kinds.h"
#include "steps/function.h"

namespace intact::engine {
namespace {

struct Function final : PlanStep {
  explicit Function(Fields& f)
      : PlanStep(f, {.follows = true, .by_image = true, .writes_parts = true}),
        x(f.reads("x")),
        y(f.writes("y")),
        function(f.text("function")) {
    in_place = {x};
  }
  void bind(Binding& binding) const override {
    binding.add(make_function(*binding.kernels.float_steps, *binding.kernels.transpose,
                              {binding.real_in(x), binding.real_out(y), function}));
  }
  int x, y;
  std::string function;
};

}  // namespace

std::unique_ptr<PlanStep> read_function(Fields& fields) { return std::make_unique<Function>(fields); }

}  // namespace intact::engine
