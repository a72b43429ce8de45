// The Python binding of steps/binary.h.
#include <nanobind/stl/string.h>

#include <string>

#include "bindings/bindings.h"
#include "steps/binary.h"

namespace intact {
namespace {

BinaryKind kind_of(const std::string& name) {
  constexpr const char* kNames[kBinaryKinds] = {"add", "sub", "mul", "div", "max", "min", "slope"};
  for (size_t i = 0; i < kBinaryKinds; ++i) {
    if (name == kNames[i]) return static_cast<BinaryKind>(i);
  }
  throw nb::value_error("no such function of two floats");
}

}  // namespace

void bind_step_binary(nb::module_& m) {
  m.def(
      "step_binary",
      [](const std::string& floats, const std::string& transpose, const RealIn& a, const RealIn& b,
         const RealOut& y, const std::string& function) {
        return native(make_binary(kernel<FloatOps>(floats), kernel<TransposeOps>(transpose),
                                  {a, b, y, kind_of(function)}));
      },
      "float_steps"_a, "transpose"_a, "a"_a, "b"_a, "y"_a, "function"_a);
}

}  // namespace intact
