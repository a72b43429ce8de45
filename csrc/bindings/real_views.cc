// Tensors of reals, of floats or of codes, for the makers of steps that compute in floats.
#include <nanobind/stl/array.h>

#include "bindings/bindings.h"
#include "steps/common/real_views.h"

namespace intact {

void bind_real_views(nb::module_& m) {
  nb::class_<RealIn>(m, "RealIn")
      .def(nb::new_([](const View& view, int32_t zero, float scale) { return RealIn{view, zero, scale}; }),
           "view"_a, "zero"_a, "scale"_a);
  nb::class_<RealOut>(m, "RealOut")
      .def(nb::new_([](const View& view, float scale, GridTuple grid) {
             return RealOut{view, scale, grid_of(grid)};
           }),
           "view"_a, "scale"_a, "grid"_a);
}

}  // namespace intact
