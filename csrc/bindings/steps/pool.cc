// The Python binding of steps/pool.h.
#include <nanobind/stl/array.h>
#include <nanobind/stl/string.h>

#include <array>
#include <string>

#include "bindings/bindings.h"
#include "steps/pool.h"

namespace intact {
namespace {

using Wide = std::array<int64_t, 2>;

}  // namespace

void bind_step_pool(nb::module_& m) {
  m.def(
      "step_max_pool",
      [](const std::string& name, const View& x, const View& y, Wide window, Wide strides, Wide dilations,
         std::array<int64_t, 4> pads) {
        return native(make_max_pool(kernel<PoolOps>(name), {x, y, window, strides, dilations, pads}));
      },
      "kernel"_a, "x"_a, "y"_a, "window"_a, "strides"_a, "dilations"_a, "pads"_a);
  m.def(
      "step_float_max_pool",
      [](const std::string& floats, const View& x, const View& y, Wide window, Wide strides, Wide dilations,
         std::array<int64_t, 4> pads) {
        return native(
            make_float_max_pool(kernel<FloatOps>(floats), {x, y, window, strides, dilations, pads}));
      },
      "floats"_a, "x"_a, "y"_a, "window"_a, "strides"_a, "dilations"_a, "pads"_a);
  m.def(
      "step_mean_pool",
      [](const std::string& name, const View& x, const View& y, Wide window, Wide strides, Wide dilations,
         std::array<int64_t, 4> pads, bool include_pads, float x_scale, float y_scale, int32_t zero,
         GridTuple grid) {
        return native(make_mean_pool(kernel<PoolOps>(name), {x, y, window, strides, dilations, pads},
                                     {include_pads, x_scale, y_scale, zero, grid_of(grid)}));
      },
      "kernel"_a, "x"_a, "y"_a, "window"_a, "strides"_a, "dilations"_a, "pads"_a, "include_pads"_a,
      "x_scale"_a, "y_scale"_a, "zero"_a, "grid"_a);
}

}  // namespace intact
