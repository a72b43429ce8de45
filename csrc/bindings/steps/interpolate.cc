// The Python binding of steps/interpolate.h.
#include <nanobind/stl/vector.h>

#include <utility>
#include <vector>

#include "bindings/bindings.h"
#include "steps/interpolate.h"

namespace intact {

void bind_step_interpolate(nb::module_& m) {
  m.def(
      "step_interpolate",
      [](const View& x, const View& y, int axis, std::vector<int64_t> places, std::vector<float> weights,
         size_t terms) {
        return native(make_interpolate({x, y, axis, std::move(places), std::move(weights), terms}));
      },
      "x"_a, "y"_a, "axis"_a, "places"_a, "weights"_a, "terms"_a);
}

}  // namespace intact
