// The Python binding of steps/layer_norm.h.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <optional>
#include <string>

#include "bindings/bindings.h"
#include "steps/layer_norm.h"

namespace intact {

void bind_step_layer_norm(nb::module_& m) {
  m.def(
      "step_layer_norm",
      [](const std::string& floats, const std::string& transpose, const RealIn& x, const RealOut& y,
         float epsilon, const std::optional<RealIn>& residual, const std::optional<View>& weight,
         const std::optional<View>& bias, const std::optional<RealOut>& codes,
         const std::optional<View>& factors) {
        return native(make_layer_norm(kernel<FloatOps>(floats), kernel<TransposeOps>(transpose),
                                      {x, residual, weight, bias, y, codes, factors, epsilon}));
      },
      "float_steps"_a, "transpose"_a, "x"_a, "y"_a, "epsilon"_a, "residual"_a.none(), "weight"_a.none(),
      "bias"_a.none(), "codes"_a.none(), "factors"_a.none());
}

}  // namespace intact
