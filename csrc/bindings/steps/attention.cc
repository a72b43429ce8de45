// The Python binding of steps/attention.h.
#include <nanobind/stl/array.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <array>
#include <optional>
#include <string>

#include "bindings/bindings.h"
#include "steps/attention.h"

namespace intact {

void bind_step_attention(nb::module_& m) {
  m.def(
      "step_attention",
      [](const std::string& matmul, const std::string& floats, const MatMulSpec& scores, float scale,
         float gain, const std::optional<RealIn>& mask, float probability_scale, GridTuple probabilities,
         const MatMulSpec& product) {
        return native(
            make_attention(kernel<MatMulOps>(matmul), kernel<FloatOps>(floats),
                           {scores, scale, gain, mask, probability_scale, grid_of(probabilities), product}));
      },
      "matmul"_a, "float_steps"_a, "scores"_a, "scale"_a, "gain"_a, "mask"_a.none(), "probability_scale"_a,
      "probabilities"_a, "product"_a);
}

}  // namespace intact
