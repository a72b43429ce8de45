// The Python binding of steps/binary.h.
#include <nanobind/stl/string.h>

#include <string>

#include "bindings/bindings.h"
#include "steps/binary.h"

namespace intact {

void bind_step_binary(nb::module_& m) {
  m.def(
      "step_binary",
      [](const std::string& floats, const std::string& transpose, const RealIn& a, const RealIn& b,
         const RealOut& y, const std::string& function) {
        const FloatOps& ops = kernel<FloatOps>(floats);
        const TransposeOps& turn = kernel<TransposeOps>(transpose);
        const auto kind = binary_kind_of(function);
        require(kind.has_value(), "no such function of two floats");
        return native(make_binary(ops, turn, {a, b, y, *kind}));
      },
      "float_steps"_a, "transpose"_a, "a"_a, "b"_a, "y"_a, "function"_a);
}

}  // namespace intact
