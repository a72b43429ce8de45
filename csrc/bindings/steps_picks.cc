// Makers of the steps that read or write where numbers say: by indices, by order, by a grid.
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <string>
#include <vector>

#include "bindings/bindings.h"
#include "steps/grid_sample.h"
#include "steps/pick.h"
#include "steps/scatter.h"
#include "steps/top_k.h"

namespace intact {

void bind_picks(nb::module_& m) {
  m.def(
      "step_top_k",
      [](const View& x, const View& y, const View& places, int axis, bool largest) {
        return native(make_top_k({x, y, places, axis, largest}));
      },
      "x"_a, "y"_a, "places"_a, "axis"_a, "largest"_a);
  m.def(
      "step_pick",
      [](const View& x, const View& index, const View& y, int axis) {
        return native(make_pick({x, index, y, axis}));
      },
      "x"_a, "index"_a, "y"_a, "axis"_a);
  m.def(
      "step_gather_elements",
      [](const View& x, const View& index, const View& y, int axis) {
        return native(make_gather_elements({x, index, y, axis}));
      },
      "x"_a, "index"_a, "y"_a, "axis"_a);
  m.def(
      "step_scatter_elements",
      [](const View& index, const View& updates, const View& y, int axis, const std::string& reduction) {
        return native(make_scatter_elements({index, updates, y, axis, reduction_of(reduction)}));
      },
      "index"_a, "updates"_a, "y"_a, "axis"_a, "reduction"_a);
  m.def(
      "step_scatter_rows",
      [](const View& index, const View& updates, const View& y, std::vector<int64_t> sizes,
         const std::string& reduction) {
        return native(make_scatter_rows({index, updates, y, std::move(sizes), reduction_of(reduction)}));
      },
      "index"_a, "updates"_a, "y"_a, "sizes"_a, "reduction"_a);
  m.def(
      "step_gather_rows",
      [](const View& x, const View& index, const View& y, std::vector<int64_t> sizes, int64_t batch) {
        return native(make_gather_rows({x, index, y, std::move(sizes), batch}));
      },
      "x"_a, "index"_a, "y"_a, "sizes"_a, "batch"_a);
  m.def(
      "step_grid_sample",
      [](const View& x, const View& grid, const View& y, bool nearest, const std::string& padding,
         bool align_corners) {
        const bool zeros = padding == "zeros", border = padding == "border";
        require(zeros || border || padding == "reflection", "there is no such padding");
        const auto mode = nearest ? GridMode::nearest : GridMode::linear;
        const auto pads = zeros ? GridPadding::zeros : border ? GridPadding::border : GridPadding::reflection;
        return native(make_grid_sample({x, grid, y, mode, pads, align_corners}));
      },
      "x"_a, "grid"_a, "y"_a, "nearest"_a, "padding"_a, "align_corners"_a);
}

}  // namespace intact
