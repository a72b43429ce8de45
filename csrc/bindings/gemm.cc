// Weights of convolutions and of products with constant matrices, packed for a kernel.
#include <nanobind/stl/array.h>
#include <nanobind/stl/string.h>

#include <array>
#include <string>

#include "bindings/bindings.h"
#include "bindings/packed.h"
#include "steps/conv.h"

namespace intact {
namespace {

nb::ndarray<nb::numpy, uint8_t> pack(const std::string& name, WeightArray weights, int groups, bool joined,
                                     int high) {
  for (size_t i = 0; i < 4; ++i) {
    require(weights.shape(i) <= (1u << 24), "a size of the weights is out of range");
  }
  const auto size = [&](size_t i) { return static_cast<int32_t>(weights.shape(i)); };
  const GemmWeights shape{size(0), size(1), size(2), size(3), groups, joined, high};
  return array_of(pack_gemm(shape, weights.data(), kernel<GemmOps>(name)));
}

// How many steps of the inner loop, over all panels, run in groups of 1, 2, ... of them, and last as words.
std::array<int64_t, kMostGroup + 1> steps_by_group(const std::string& name, PackedBytes packed) {
  std::array<int64_t, kMostGroup + 1> found{};
  for (const PackedPanel& p : read_packed(packed.data(), packed.size(), kernel<GemmOps>(name)).panels) {
    for (int size = 1; size <= kMostGroup; ++size) found[size - 1] += int64_t{p.counts[size - 1]} * size;
    if (is_words(p)) found[kMostGroup] += p.steps;
  }
  return found;
}

}  // namespace

void bind_gemm(nb::module_& m) {
  m.def("pack_gemm", &pack, "kernel"_a, "weights"_a.noconvert(), "groups"_a, "joined"_a, "high"_a);
  m.def("gemm_groups", &steps_by_group, "kernel"_a, "packed"_a.noconvert());
  m.def(
      "gemm_tiled", [](const std::string& name) { return kernel<GemmOps>(name).tiles != nullptr; },
      "kernel"_a);
  m.def("gemm_grouped", [](const std::string& name) { return kernel<GemmOps>(name).grouped; }, "kernel"_a);
  m.def(
      "gemm_fills",
      [](const std::string& name, int64_t pixels, int64_t window, int64_t channels) {
        return fills(kernel<GemmOps>(name), pixels, window, channels);
      },
      "kernel"_a, "pixels"_a, "window"_a, "channels"_a);
}

}  // namespace intact
