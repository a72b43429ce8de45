// The Python binding of steps/arg_max.h.
#include <nanobind/stl/string.h>

#include <string>

#include "bindings/bindings.h"
#include "steps/arg_max.h"

namespace intact {

void bind_step_arg_max(nb::module_& m) {
  m.def(
      "step_arg_max",
      [](const std::string& transpose, const View& x, const View& y, int axis, bool smallest, bool last) {
        return native(make_arg_max(kernel<TransposeOps>(transpose), {x, y, axis, smallest, last}));
      },
      "transpose"_a, "x"_a, "y"_a, "axis"_a, "smallest"_a, "last"_a);
}

}  // namespace intact
