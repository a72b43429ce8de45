// The Python binding of steps/float_conv.h.
#include <nanobind/stl/array.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <array>
#include <optional>
#include <string>

#include "bindings/bindings.h"
#include "bindings/packed.h"
#include "steps/float_conv.h"

namespace intact {
namespace {

using Pair = std::array<int64_t, 2>;

NativeStep conv(const std::string& name, const View& x, const View& y, const PackedVector& packed,
                Pair kernel_size, Pair strides, Pair dilations, Pair origin, int64_t groups,
                const std::optional<View>& start) {
  const FloatConvSpec spec{x, y, packed_of(packed), kernel_size, strides, dilations, origin, groups, start};
  return native(make_float_conv(kernel<FloatGemmOps>(name), spec));
}

}  // namespace

void bind_step_float_conv(nb::module_& m) {
  m.def("step_float_conv", &conv, "kernel"_a, "x"_a, "y"_a, "packed"_a.noconvert(), "kernel_size"_a,
        "strides"_a, "dilations"_a, "origin"_a, "groups"_a, "start"_a.none());
}

}  // namespace intact
