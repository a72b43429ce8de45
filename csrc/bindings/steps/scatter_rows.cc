// The Python binding of steps/scatter_rows.h.
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <string>
#include <utility>
#include <vector>

#include "bindings/bindings.h"
#include "steps/scatter_rows.h"

namespace intact {

void bind_step_scatter_rows(nb::module_& m) {
  m.def(
      "step_scatter_rows",
      [](const View& index, const View& updates, const View& y, std::vector<int64_t> sizes,
         const std::string& reduction) {
        return native(make_scatter_rows({index, updates, y, std::move(sizes), reduction_of(reduction)}));
      },
      "index"_a, "updates"_a, "y"_a, "sizes"_a, "reduction"_a);
}

}  // namespace intact
