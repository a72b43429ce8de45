// The Python binding of steps/scatter_elements.h.
#include <nanobind/stl/string.h>

#include <string>

#include "bindings/bindings.h"
#include "steps/scatter_elements.h"

namespace intact {

void bind_step_scatter_elements(nb::module_& m) {
  m.def(
      "step_scatter_elements",
      [](const View& index, const View& updates, const View& y, int axis, const std::string& reduction) {
        return native(make_scatter_elements({index, updates, y, axis, reduction_of(reduction)}));
      },
      "index"_a, "updates"_a, "y"_a, "axis"_a, "reduction"_a);
}

}  // namespace intact
