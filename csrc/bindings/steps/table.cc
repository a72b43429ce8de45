// The Python binding of steps/table.h.
#include <nanobind/stl/string.h>

#include <string>

#include "bindings/bindings.h"
#include "steps/table.h"

namespace intact {

void bind_step_table(nb::module_& m) {
  m.def(
      "step_table",
      [](const std::string& name, const View& x, const View& table, const View& y) {
        return native(make_table(kernel<PointwiseOps>(name), {x, table, y}));
      },
      "kernel"_a, "x"_a, "table"_a, "y"_a);
}

}  // namespace intact
