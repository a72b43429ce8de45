// The Python binding of steps/chosen_linear.h.
#include <nanobind/stl/string.h>

#include <string>

#include "bindings/bindings.h"
#include "bindings/packed.h"
#include "steps/chosen_linear.h"

namespace intact {
namespace {

NativeStep chosen_linear(const std::string& name, const View& x, const View& index, const View& y,
                         PackedBytes packed, const EpilogueSpec& epilogue, int threads, int zero) {
  require(threads >= 1, "a step is run by at least one thread");
  require(zero >= 0 && zero <= 255, "zero points are bytes");
  ConvLayerSpec layer{&kernel<GemmOps>(name), weights_of(packed), epilogue};
  layer.zero = zero;
  const ConvViews rows{x, y, {}, epilogue.residual, {1, 1}, {1, 1}, {0, 0}, threads};
  return native(make_chosen_linear({{rows, std::make_shared<const ConvLayer>(layer)}, index}));
}

}  // namespace

void bind_step_chosen_linear(nb::module_& m) {
  m.def("step_chosen_linear", &chosen_linear, "kernel"_a, "x"_a, "index"_a, "y"_a, "packed"_a.noconvert(),
        "epilogue"_a, "threads"_a, "zero"_a);
}

}  // namespace intact
