// The Python binding of steps/clip.h.
#include <nanobind/stl/string.h>

#include <string>

#include "bindings/bindings.h"
#include "steps/clip.h"

namespace intact {

void bind_step_clip(nb::module_& m) {
  m.def(
      "step_clip",
      [](const std::string& floats, const std::string& transpose, const RealIn& x, const RealOut& y,
         float low, float high) {
        return native(
            make_clip(kernel<FloatOps>(floats), kernel<TransposeOps>(transpose), {x, y, low, high}));
      },
      "float_steps"_a, "transpose"_a, "x"_a, "y"_a, "low"_a, "high"_a);
}

}  // namespace intact
