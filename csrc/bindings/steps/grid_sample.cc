// The Python binding of steps/grid_sample.h.
#include <nanobind/stl/string.h>

#include <string>

#include "bindings/bindings.h"
#include "steps/grid_sample.h"

namespace intact {

void bind_step_grid_sample(nb::module_& m) {
  m.def(
      "step_grid_sample",
      [](const View& x, const View& grid, const View& y, bool nearest, const std::string& padding,
         bool align_corners) {
        const auto pads = grid_padding_of(padding);
        require(pads.has_value(), "there is no such padding");
        const auto mode = nearest ? GridMode::nearest : GridMode::linear;
        return native(make_grid_sample({x, grid, y, mode, *pads, align_corners}));
      },
      "x"_a, "grid"_a, "y"_a, "nearest"_a, "padding"_a, "align_corners"_a);
}

}  // namespace intact
