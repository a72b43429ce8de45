// The Python binding of steps/top_k.h.

#include "bindings/bindings.h"
#include "steps/top_k.h"

namespace intact {

void bind_step_top_k(nb::module_& m) {
  m.def(
      "step_top_k",
      [](const View& x, const View& y, const View& places, int axis, bool largest) {
        return native(make_top_k({x, y, places, axis, largest}));
      },
      "x"_a, "y"_a, "places"_a, "axis"_a, "largest"_a);
}

}  // namespace intact
