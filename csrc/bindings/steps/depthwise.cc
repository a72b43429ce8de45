// The Python binding of steps/depthwise.h.
#include <nanobind/stl/array.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <string>

#include "bindings/bindings.h"
#include "steps/depthwise.h"

namespace intact {
namespace {

using Pair = std::array<int, 2>;

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

}  // namespace

void bind_step_depthwise(nb::module_& m) {
  m.def(
      "step_depthwise",
      [](const std::string& name, const View& x, const View& y, Dense<const int8_t, nb::ndim<3>> weight,
         Pair strides, Pair dilations, Pair pads, const EpilogueSpec& epilogue,
         const std::optional<View>& low) {
        const auto& ops = kernel<DepthwiseOps>(name);
        const DepthwiseSpec spec{x, y, strides, dilations, pads, low, epilogue.residual};
        DepthwiseWeights weights = weights_of(weight);
        weights.high = std::max<int>(x.high, low ? low->high : 0);
        weights.joins = low.has_value();
        return native(make_depthwise(
            std::make_shared<const DepthwiseLayer>(ops, weights, epilogue, joined_pixels(ops, spec)), spec));
      },
      "kernel"_a, "x"_a, "y"_a, "weight"_a.noconvert(), "strides"_a, "dilations"_a, "pads"_a, "epilogue"_a,
      "low"_a = nb::none());
}

}  // namespace intact
