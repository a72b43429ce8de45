// The Python binding of steps/resize.h.
#include <nanobind/stl/vector.h>

#include <utility>
#include <vector>

#include "bindings/bindings.h"
#include "steps/resize.h"

namespace intact {

void bind_step_resize(nb::module_& m) {
  m.def(
      "step_resize",
      [](const View& x, const View& y, std::vector<std::vector<int64_t>> indices) {
        return native(make_resize({x, y, std::move(indices)}));
      },
      "x"_a, "y"_a, "indices"_a);
}

}  // namespace intact
