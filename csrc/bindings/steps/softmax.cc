// The Python binding of steps/softmax.h.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <optional>
#include <string>

#include "bindings/bindings.h"
#include "steps/softmax.h"

namespace intact {

void bind_step_softmax(nb::module_& m) {
  m.def(
      "step_softmax",
      [](const std::string& floats, const std::string& transpose, const RealIn& x, const RealOut& y,
         float gain, const std::optional<RealIn>& mask) {
        return native(
            make_softmax(kernel<FloatOps>(floats), kernel<TransposeOps>(transpose), {x, mask, y, gain}));
      },
      "float_steps"_a, "transpose"_a, "x"_a, "y"_a, "gain"_a, "mask"_a.none());
}

}  // namespace intact
