// Over one axis, of x * gain (+ a mask, a float tensor or constant that broadcasts): that axis becomes the
// last one of the views.
#include "engine/kinds.h"
#include "engine/kinds/fusible.h"
#include "engine/kinds/views.h"
#include "steps/softmax.h"

namespace intact::engine {

Softmax::Softmax(Fields& f)
    : PlanStep(f, {}),
      x(f.reads("x")),
      y(f.writes("y")),
      axis(f.integer("axis")),
      gain(f.real("gain")),
      mask(f.operand("mask", true)) {
  in_place = {x};
}

void Softmax::bind(Binding& binding) const {
  const Shape& shape = binding.shape(y);
  const int along = static_cast<int>(axis < 0 ? axis + shape.rank : axis);
  std::vector<int> order;
  for (int i = 0; i < shape.rank; ++i) {
    if (i != along) order.push_back(i);
  }
  order.push_back(along);
  SoftmaxSpec spec{binding.real_in(x), {}, binding.real_out(y), static_cast<float>(gain)};
  spec.x.view = turned(spec.x.view, order);
  spec.y.view = turned(spec.y.view, order);
  if (mask != kNoValue) {
    spec.mask = spread(binding.real_in(mask), shape);
    spec.mask->view = turned(spec.mask->view, order);
  }
  binding.add(make_softmax(*binding.kernels.float_steps, *binding.kernels.transpose, spec));
}

std::unique_ptr<PlanStep> read_softmax(Fields& fields) { return std::make_unique<Softmax>(fields); }

}  // namespace intact::engine
