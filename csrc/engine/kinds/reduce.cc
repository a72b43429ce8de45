// One number for the floats along some axes (N50): they become the last ones of x, and y has the others.
#include "engine/fields.h"
#include "engine/kinds.h"
#include "engine/kinds/views.h"
#include "steps/reduce.h"

namespace intact::engine {
namespace {

struct Reduce final : PlanStep {
  explicit Reduce(Fields& f)
      : PlanStep(f, {.strided = true}),
        x(f.reads("x")),
        y(f.writes("y")),
        function(f.text("function")),
        axes(f.integers("axes")),
        keepdims(f.truth("keepdims")) {
    std::sort(axes.begin(), axes.end());
  }

  bool goes(int axis) const { return std::binary_search(axes.begin(), axes.end(), axis); }

  void bind(Binding& binding) const override {
    std::vector<int> kept, order;
    for (int i = 0; i < binding.shape(x).rank; ++i) {
      if (!goes(i)) kept.push_back(i);
    }
    order = kept;
    order.insert(order.end(), axes.begin(), axes.end());
    RealIn from = binding.real_in(x);
    RealOut to = binding.real_out(y);
    from.view = turned(from.view, order);
    if (keepdims) to.view = turned(to.view, kept);
    binding.add(make_reduce(*binding.kernels.float_steps, *binding.kernels.reduce, *binding.kernels.transpose,
                            {from, to, function}));
  }

  int x, y;
  std::string function;
  std::vector<int64_t> axes;
  bool keepdims;
};

}  // namespace

std::unique_ptr<PlanStep> read_reduce(Fields& fields) { return std::make_unique<Reduce>(fields); }

}  // namespace intact::engine
