// The Python binding of steps/reduce.h.
#include <nanobind/stl/string.h>

#include <string>

#include "bindings/bindings.h"
#include "steps/reduce.h"

namespace intact {

void bind_step_reduce(nb::module_& m) {
  m.def(
      "step_reduce",
      [](const std::string& floats, const std::string& reduce, const std::string& transpose, const RealIn& x,
         const RealOut& y, const std::string& function) {
        return native(make_reduce(kernel<FloatOps>(floats), kernel<ReduceOps>(reduce),
                                  kernel<TransposeOps>(transpose), {x, y, function}));
      },
      "float_steps"_a, "reduce"_a, "transpose"_a, "x"_a, "y"_a, "function"_a);
}

}  // namespace intact
