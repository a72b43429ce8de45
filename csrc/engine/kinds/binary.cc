// Element-wise in floats with broadcasting; a or b may name a constant. The slope of a is b (N48).
#include "engine/kinds.h"
#include "engine/kinds/fusible.h"
#include "engine/kinds/views.h"
#include "steps/binary.h"

namespace intact::engine {

Binary::Binary(Fields& f)
    : PlanStep(f, {.follows = true, .by_image = true, .writes_parts = true}),
      function(f.text("function")),
      a(f.operand("a")),
      b(f.operand("b")),
      y(f.writes("y")) {
  in_place = {a, b};
}

void Binary::bind(Binding& binding) const {
  const Shape& shape = binding.shape(y);
  binding.add(make_binary(*binding.kernels.float_steps, *binding.kernels.transpose,
                          {spread(binding.real_in(a), shape), spread(binding.real_in(b), shape),
                           binding.real_out(y), binary_kind_of(function).value()}));
}

std::unique_ptr<PlanStep> read_binary(Fields& fields) { return std::make_unique<Binary>(fields); }

}  // namespace intact::engine
