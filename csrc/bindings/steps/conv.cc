// The Python binding of steps/conv.h.
#include <nanobind/stl/array.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "bindings/bindings.h"
#include "bindings/packed.h"
#include "steps/conv.h"

namespace intact {
namespace {

using Pair = std::array<int64_t, 2>;

NativeStep conv(const std::string& name, const View& x, const View& y, PackedBytes packed, Pair strides,
                Pair dilations, Pair origin, const EpilogueSpec& epilogue, int threads, int zero,
                const std::optional<View>& low, int shift, const std::vector<int32_t>& high_correction) {
  require(threads >= 1, "a step is run by at least one thread");
  require(zero >= 0 && zero <= 255, "zero points are bytes");
  const ConvLayerSpec layer{
      &kernel<GemmOps>(name), weights_of(packed), epilogue, low.has_value(), shift, high_correction, zero};
  const ConvViews views{x, y, low, epilogue.residual, strides, dilations, origin, threads};
  return native(make_conv({views, std::make_shared<const ConvLayer>(layer)}));
}

}  // namespace

void bind_step_conv(nb::module_& m) {
  m.def("step_conv", &conv, "kernel"_a, "x"_a, "y"_a, "packed"_a.noconvert(), "strides"_a, "dilations"_a,
        "origin"_a, "epilogue"_a, "threads"_a = 1, "zero"_a = 0, "low"_a = nb::none(), "shift"_a = 0,
        "high_correction"_a = std::vector<int32_t>());
}

}  // namespace intact
