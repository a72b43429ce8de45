// The Python binding of steps/fold.h.
#include <nanobind/stl/string.h>

#include <algorithm>
#include <iterator>
#include <string>

#include "bindings/bindings.h"
#include "steps/fold.h"

namespace intact {

void bind_step_fold(nb::module_& m) {
  m.def(
      "step_fold",
      [](const View& x, const View& y, int axis, const std::string& function) {
        constexpr const char* kNames[] = {"sum", "prod", "max", "min"};
        const auto* const found = std::find(std::begin(kNames), std::end(kNames), function);
        require(found != std::end(kNames), "there is no such fold");
        return native(make_fold({x, y, axis, static_cast<FoldKind>(found - kNames)}));
      },
      "x"_a, "y"_a, "axis"_a, "function"_a);
}

}  // namespace intact
