// The Python binding of steps/rescale.h.
#include <nanobind/stl/array.h>
#include <nanobind/stl/string.h>

#include <array>
#include <string>

#include "bindings/bindings.h"
#include "steps/rescale.h"

namespace intact {

void bind_step_rescale(nb::module_& m) {
  m.def(
      "step_rescale",
      [](const std::string& name, const View& x, const View& y, int32_t zero, float multiplier,
         GridTuple grid) {
        return native(make_rescale(kernel<PointwiseOps>(name), {x, y, {zero, multiplier}, grid_of(grid)}));
      },
      "kernel"_a, "x"_a, "y"_a, "zero"_a, "multiplier"_a, "grid"_a);
}

}  // namespace intact
