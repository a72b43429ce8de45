// The Python binding of steps/fill.h.

#include "bindings/bindings.h"
#include "steps/fill.h"

namespace intact {

void bind_step_fill(nb::module_& m) {
  m.def(
      "step_fill", [](const View& y, uint8_t value) { return native(make_fill({y, value})); }, "y"_a,
      "value"_a);
}

}  // namespace intact
