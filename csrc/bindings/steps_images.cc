// Makers of the steps on planes of codes, and on tensors of any type: everything that is no dense sum.
#include <nanobind/stl/array.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

#include "bindings/bindings.h"
#include "steps/along_axis.h"
#include "steps/copy.h"
#include "steps/depthwise.h"
#include "steps/elementwise.h"
#include "steps/pointwise.h"
#include "steps/pool.h"
#include "steps/quantize.h"

namespace intact {
namespace {

using GridTuple = std::array<int32_t, 3>;  // zero, low, high
using Pair = std::array<int, 2>;
using Wide = std::array<int64_t, 2>;

ByteGrid grid_of(const GridTuple& g) { return {g[0], g[1], g[2]}; }

void bind_order(nb::module_& m) {
  m.def(
      "step_copy",
      [](const std::string& transpose, const View& x, const View& y) {
        return native(make_copy(kernel<TransposeOps>(transpose), {x, y}));
      },
      "transpose"_a, "x"_a, "y"_a);
  m.def(
      "step_gather",
      [](const View& x, const View& y, std::vector<std::vector<int64_t>> indices) {
        return native(make_gather({x, y, std::move(indices)}));
      },
      "x"_a, "y"_a, "indices"_a);
  m.def(
      "step_fill", [](const View& y, uint8_t value) { return native(make_fill({y, value})); }, "y"_a,
      "value"_a);
  m.def(
      "step_halo", [](const View& image, uint8_t value) { return native(make_halo({image, value})); },
      "image"_a, "value"_a);
}

void bind_along_axis(nb::module_& m) {
  m.def(
      "step_fold",
      [](const View& x, const View& y, int axis, const std::string& function) {
        constexpr const char* kNames[] = {"sum", "prod", "max", "min"};
        const auto* const found = std::find(std::begin(kNames), std::end(kNames), function);
        require(found != std::end(kNames), "there is no such fold");
        return native(make_fold({x, y, axis, static_cast<FoldKind>(found - kNames)}));
      },
      "x"_a, "y"_a, "axis"_a, "function"_a);
  m.def(
      "step_cum_sum",
      [](const View& x, const View& y, int axis, bool exclusive, bool reverse) {
        return native(make_cum_sum({x, y, axis, exclusive, reverse}));
      },
      "x"_a, "y"_a, "axis"_a, "exclusive"_a, "reverse"_a);
  m.def(
      "step_interpolate",
      [](const View& x, const View& y, int axis, std::vector<int64_t> places, std::vector<float> weights,
         size_t terms) {
        return native(make_interpolate({x, y, axis, std::move(places), std::move(weights), terms}));
      },
      "x"_a, "y"_a, "axis"_a, "places"_a, "weights"_a, "terms"_a);
  m.def(
      "step_arg_max",
      [](const std::string& transpose, const View& x, const View& y, int axis, bool smallest, bool last) {
        return native(make_arg_max(kernel<TransposeOps>(transpose), {x, y, axis, smallest, last}));
      },
      "transpose"_a, "x"_a, "y"_a, "axis"_a, "smallest"_a, "last"_a);
}

void bind_points(nb::module_& m) {
  m.def(
      "step_elementwise",
      [](const std::string& name, const std::string& operation, const std::vector<View>& xs, const View& y) {
        return native(make_elementwise(kernel<ElementwiseOps>(name), {operation, xs, y}));
      },
      "kernel"_a, "operation"_a, "xs"_a, "y"_a);
  m.def(
      "step_quantize",
      [](const std::string& name, const std::string& transpose, const View& x, const View& y, float scale,
         GridTuple grid) {
        return native(make_quantize(kernel<QuantizeOps>(name), kernel<TransposeOps>(transpose),
                                    {x, y, scale, grid_of(grid)}));
      },
      "kernel"_a, "transpose"_a, "x"_a, "y"_a, "scale"_a, "grid"_a);
  m.def(
      "step_split_quantize",
      [](const std::string& name, const std::string& transpose, const View& x, const View& above,
         const View& below, float scale, int32_t low, int32_t high) {
        return native(make_split_quantize(kernel<QuantizeOps>(name), kernel<TransposeOps>(transpose),
                                          {x, above, below, scale, low, high}));
      },
      "kernel"_a, "transpose"_a, "x"_a, "above"_a, "below"_a, "scale"_a, "low"_a, "high"_a);
  m.def(
      "step_dequantize",
      [](const std::string& name, const std::string& transpose, const View& x, const View& y, float scale,
         int32_t zero) {
        return native(
            make_dequantize(kernel<QuantizeOps>(name), kernel<TransposeOps>(transpose), {x, y, scale, zero}));
      },
      "kernel"_a, "transpose"_a, "x"_a, "y"_a, "scale"_a, "zero"_a);
  m.def(
      "step_add",
      [](const std::string& name, const View& a, const View& b, const View& y, int32_t a_zero, float a_scale,
         int32_t b_zero, float b_scale, float scale, GridTuple grid) {
        return native(make_add(kernel<PointwiseOps>(name),
                               {a, b, y, {a_zero, a_scale}, {b_zero, b_scale}, scale, grid_of(grid)}));
      },
      "kernel"_a, "a"_a, "b"_a, "y"_a, "a_zero"_a, "a_scale"_a, "b_zero"_a, "b_scale"_a, "scale"_a, "grid"_a);
  m.def(
      "step_rescale",
      [](const std::string& name, const View& x, const View& y, int32_t zero, float multiplier,
         GridTuple grid) {
        return native(make_rescale(kernel<PointwiseOps>(name), {x, y, {zero, multiplier}, grid_of(grid)}));
      },
      "kernel"_a, "x"_a, "y"_a, "zero"_a, "multiplier"_a, "grid"_a);
  m.def(
      "step_lookup",
      [](const std::string& name, const View& x, const View& table, const View& y) {
        return native(make_lookup(kernel<PointwiseOps>(name), {x, table, y}));
      },
      "kernel"_a, "x"_a, "table"_a, "y"_a);
}

void bind_pools(nb::module_& m) {
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

// weight: int8 [kernel_h, kernel_w, channels]. Its epilogue and the bytes of x are the maker's to add.
DepthwiseWeights weights_of(const Dense<const int8_t, nb::ndim<3>>& weight) {
  const size_t channels = weight.shape(2);
  require(weight.shape(0) <= kMostTaps && weight.shape(1) <= kMostTaps && channels < (1 << 24),
          "weights are [kernel_h, kernel_w, channels]");
  DepthwiseWeights found{};
  found.kernel_h = static_cast<int>(weight.shape(0));
  found.kernel_w = static_cast<int>(weight.shape(1));
  found.channels = static_cast<int>(channels);
  found.weight = weight.data();
  return found;
}

void bind_depthwise(nb::module_& m) {
  m.def(
      "step_depthwise",
      [](const std::string& name, const View& x, const View& y, Dense<const int8_t, nb::ndim<3>> weight,
         Pair strides, Pair dilations, Pair pads, const EpilogueSpec& epilogue,
         const std::optional<View>& low) {
        return native(make_depthwise(kernel<DepthwiseOps>(name),
                                     {x, y, weights_of(weight), strides, dilations, pads, epilogue, low}));
      },
      "kernel"_a, "x"_a, "y"_a, "weight"_a.noconvert(), "strides"_a, "dilations"_a, "pads"_a, "epilogue"_a,
      "low"_a = nb::none());
}

}  // namespace

void bind_images(nb::module_& m) {
  bind_order(m);
  bind_along_axis(m);
  bind_points(m);
  bind_pools(m);
  bind_depthwise(m);
}

}  // namespace intact
