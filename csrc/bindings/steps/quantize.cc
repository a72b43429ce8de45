// The Python binding of steps/quantize.h.
#include <nanobind/stl/array.h>
#include <nanobind/stl/string.h>

#include <array>
#include <string>

#include "bindings/bindings.h"
#include "steps/quantize.h"

namespace intact {

void bind_step_quantize(nb::module_& m) {
  m.def(
      "step_quantize",
      [](const std::string& name, const std::string& transpose, const View& x, const View& y, float scale,
         GridTuple grid) {
        return native(make_quantize(kernel<QuantizeOps>(name), kernel<TransposeOps>(transpose),
                                    {x, y, scale, grid_of(grid)}));
      },
      "kernel"_a, "transpose"_a, "x"_a, "y"_a, "scale"_a, "grid"_a);
}

}  // namespace intact
