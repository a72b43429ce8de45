// The Python binding of steps/fold.h.
#include <nanobind/stl/string.h>

#include <string>

#include "bindings/bindings.h"
#include "steps/fold.h"

namespace intact {

void bind_step_fold(nb::module_& m) {
  m.def(
      "step_fold",
      [](const View& x, const View& y, int axis, const std::string& function) {
        const auto kind = fold_kind_of(function);
        require(kind.has_value(), "there is no such fold");
        return native(make_fold({x, y, axis, *kind}));
      },
      "x"_a, "y"_a, "axis"_a, "function"_a);
}

}  // namespace intact
