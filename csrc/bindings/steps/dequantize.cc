// The Python binding of steps/dequantize.h.
#include <nanobind/stl/string.h>

#include <string>

#include "bindings/bindings.h"
#include "steps/dequantize.h"

namespace intact {

void bind_step_dequantize(nb::module_& m) {
  m.def(
      "step_dequantize",
      [](const std::string& name, const std::string& transpose, const View& x, const View& y, float scale,
         int32_t zero) {
        return native(
            make_dequantize(kernel<QuantizeOps>(name), kernel<TransposeOps>(transpose), {x, y, scale, zero}));
      },
      "kernel"_a, "transpose"_a, "x"_a, "y"_a, "scale"_a, "zero"_a);
}

}  // namespace intact
