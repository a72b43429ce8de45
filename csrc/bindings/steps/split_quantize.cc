// The Python binding of steps/split_quantize.h.
#include <nanobind/stl/string.h>

#include <string>

#include "bindings/bindings.h"
#include "steps/split_quantize.h"

namespace intact {

void bind_step_split_quantize(nb::module_& m) {
  m.def(
      "step_split_quantize",
      [](const std::string& name, const std::string& transpose, const View& x, const View& above,
         const View& below, float scale, int32_t low, int32_t high) {
        return native(make_split_quantize(kernel<QuantizeOps>(name), kernel<TransposeOps>(transpose),
                                          {x, above, below, scale, low, high}));
      },
      "kernel"_a, "transpose"_a, "x"_a, "above"_a, "below"_a, "scale"_a, "low"_a, "high"_a);
}

}  // namespace intact
