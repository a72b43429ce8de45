// The Python binding of steps/gather.h.

#include "bindings/bindings.h"
#include "steps/gather.h"

namespace intact {

void bind_step_gather(nb::module_& m) {
  m.def(
      "step_gather",
      [](const View& x, const View& index, const View& y, int axis) {
        return native(make_gather({x, index, y, axis}));
      },
      "x"_a, "index"_a, "y"_a, "axis"_a);
}

}  // namespace intact
