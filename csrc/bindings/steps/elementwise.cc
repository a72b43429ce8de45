// The Python binding of steps/elementwise.h.
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <string>
#include <vector>

#include "bindings/bindings.h"
#include "steps/elementwise.h"

namespace intact {

void bind_step_elementwise(nb::module_& m) {
  m.def(
      "step_elementwise",
      [](const std::string& name, const std::string& operation, const std::vector<View>& xs, const View& y) {
        return native(make_elementwise(kernel<ElementwiseOps>(name), {operation, xs, y}));
      },
      "kernel"_a, "operation"_a, "xs"_a, "y"_a);
}

}  // namespace intact
