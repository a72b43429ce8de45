// The Python binding of steps/fake_quantize.h.
#include <nanobind/stl/string.h>

#include <string>

#include "bindings/bindings.h"
#include "steps/fake_quantize.h"

namespace intact {

void bind_step_fake_quantize(nb::module_& m) {
  m.def(
      "step_fake_quantize",
      [](const std::string& floats, const std::string& transpose, const std::string& fake_quantize,
         const RealIn& x, const RealOut& y, float scale, float low, float high) {
        return native(make_fake_quantize(kernel<FloatOps>(floats), kernel<TransposeOps>(transpose),
                                         kernel<FakeQuantizeOps>(fake_quantize), {x, y, scale, low, high}));
      },
      "float_steps"_a, "transpose"_a, "fake_quantize"_a, "x"_a, "y"_a, "scale"_a, "low"_a, "high"_a);
}

}  // namespace intact
