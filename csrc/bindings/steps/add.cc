// The Python binding of steps/add.h.
#include <nanobind/stl/array.h>
#include <nanobind/stl/string.h>

#include <array>
#include <string>

#include "bindings/bindings.h"
#include "steps/add.h"

namespace intact {

void bind_step_add(nb::module_& m) {
  m.def(
      "step_add",
      [](const std::string& name, const View& a, const View& b, const View& y, int32_t a_zero, float a_scale,
         int32_t b_zero, float b_scale, float scale, GridTuple grid) {
        const ByteGrid codes = grid_of(grid);
        return native(
            make_add(kernel<PointwiseOps>(name),
                     {a, b, y, {a_zero, a_scale}, {b_zero, b_scale}, divisor_of_sum(scale, codes), codes}));
      },
      "kernel"_a, "a"_a, "b"_a, "y"_a, "a_zero"_a, "a_scale"_a, "b_zero"_a, "b_scale"_a, "scale"_a, "grid"_a);
}

}  // namespace intact
