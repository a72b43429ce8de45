// The Python binding of steps/gather_elements.h.

#include "bindings/bindings.h"
#include "steps/gather_elements.h"

namespace intact {

void bind_step_gather_elements(nb::module_& m) {
  m.def(
      "step_gather_elements",
      [](const View& x, const View& index, const View& y, int axis) {
        return native(make_gather_elements({x, index, y, axis}));
      },
      "x"_a, "index"_a, "y"_a, "axis"_a);
}

}  // namespace intact
