// The Python binding of steps/float_matmul.h.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <optional>
#include <string>

#include "bindings/bindings.h"
#include "bindings/packed.h"
#include "steps/float_matmul.h"

namespace intact {
namespace {

NativeStep matmul(const std::string& name, const std::string& transpose, const View& a, const View& y,
                  const std::optional<View>& b, const std::optional<PackedVector>& packed,
                  const std::optional<View>& start) {
  require(b.has_value() != packed.has_value(), "a right side is a view, or packed");
  const FloatMatMulSpec spec{a, y, b, packed ? packed_of(*packed) : PackedFloats{}, start};
  return native(make_float_matmul(kernel<FloatGemmOps>(name), kernel<TransposeOps>(transpose), spec));
}

}  // namespace

void bind_step_float_matmul(nb::module_& m) {
  m.def("step_float_matmul", &matmul, "kernel"_a, "transpose"_a, "a"_a, "y"_a, "b"_a.none(),
        "packed"_a.noconvert().none(), "start"_a.none());
}

}  // namespace intact
