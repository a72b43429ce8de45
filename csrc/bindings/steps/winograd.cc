// The Python binding of steps/winograd.h.
#include <nanobind/stl/array.h>
#include <nanobind/stl/string.h>

#include <array>
#include <string>

#include "bindings/bindings.h"
#include "bindings/packed.h"
#include "steps/winograd.h"

namespace intact {
namespace {

using Pair = std::array<int64_t, 2>;

NativeStep winograd(const std::string& name, const View& x, const View& y, PackedBytes packed, Pair origin,
                    const EpilogueSpec& epilogue, int threads) {
  require(threads >= 1, "a step is run by at least one thread");
  const ConvViews views{x, y, {}, epilogue.residual, {1, 1}, {1, 1}, origin, threads};
  return native(make_winograd({views, std::make_shared<const WinogradLayer>(kernel<WinogradOps>(name),
                                                                            weights_of(packed), epilogue)}));
}

// Of a 3x3 window.
void check_taps(const WeightArray& weights) {
  require(weights.shape(1) == 3 && weights.shape(2) == 3, "Winograd's form is for 3x3 windows");
  require(weights.shape(0) <= (1u << 24) && weights.shape(3) <= (1u << 24),
          "a size of the weights is out of range");
}

bool fits_winograd(WeightArray weights, int high) {
  check_taps(weights);
  return winograd_fits(static_cast<int32_t>(weights.shape(0)), static_cast<int32_t>(weights.shape(3)), high,
                       weights.data());
}

bool pays_winograd(const std::string& name, const std::string& direct, std::array<int64_t, 5> sizes,
                   int threads) {
  const auto [images, height, width, in, out] = sizes;
  const WinogradWork work{images, height, width, in, out, threads};
  return winograd_pays(kernel<WinogradOps>(name), kernel<GemmOps>(direct), work);
}

nb::ndarray<nb::numpy, uint8_t> pack_taps(const std::string& name, WeightArray weights, int high) {
  check_taps(weights);
  return array_of(pack_winograd(static_cast<int32_t>(weights.shape(0)),
                                static_cast<int32_t>(weights.shape(3)), high, weights.data(),
                                kernel<WinogradOps>(name)));
}

}  // namespace

void bind_step_winograd(nb::module_& m) {
  m.def("winograd_fits", &fits_winograd, "weights"_a.noconvert(), "high"_a);
  m.def("winograd_pays", &pays_winograd, "kernel"_a, "direct"_a, "sizes"_a, "threads"_a);
  m.def("pack_winograd", &pack_taps, "kernel"_a, "weights"_a.noconvert(), "high"_a);
  m.def("step_winograd", &winograd, "kernel"_a, "x"_a, "y"_a, "packed"_a.noconvert(), "origin"_a,
        "epilogue"_a, "threads"_a = 1);
}

}  // namespace intact
