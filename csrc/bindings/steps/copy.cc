// The Python binding of steps/copy.h.
#include <nanobind/stl/string.h>

#include <string>

#include "bindings/bindings.h"
#include "steps/copy.h"

namespace intact {

void bind_step_copy(nb::module_& m) {
  m.def(
      "step_copy",
      [](const std::string& transpose, const View& x, const View& y) {
        return native(make_copy(kernel<TransposeOps>(transpose), {x, y}));
      },
      "transpose"_a, "x"_a, "y"_a);
}

}  // namespace intact
