// The Python binding of steps/gather_rows.h.
#include <nanobind/stl/vector.h>

#include <utility>
#include <vector>

#include "bindings/bindings.h"
#include "steps/gather_rows.h"

namespace intact {

void bind_step_gather_rows(nb::module_& m) {
  m.def(
      "step_gather_rows",
      [](const View& x, const View& index, const View& y, std::vector<int64_t> sizes, int64_t batch) {
        return native(make_gather_rows({x, index, y, std::move(sizes), batch}));
      },
      "x"_a, "index"_a, "y"_a, "sizes"_a, "batch"_a);
}

}  // namespace intact
