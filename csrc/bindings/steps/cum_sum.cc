// The Python binding of steps/cum_sum.h.

#include "bindings/bindings.h"
#include "steps/cum_sum.h"

namespace intact {

void bind_step_cum_sum(nb::module_& m) {
  m.def(
      "step_cum_sum",
      [](const View& x, const View& y, int axis, bool exclusive, bool reverse) {
        return native(make_cum_sum({x, y, axis, exclusive, reverse}));
      },
      "x"_a, "y"_a, "axis"_a, "exclusive"_a, "reverse"_a);
}

}  // namespace intact
