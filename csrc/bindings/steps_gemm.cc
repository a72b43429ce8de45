// Packed weights and the steps of convolutions and constant matrices.
#include <nanobind/stl/array.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bindings/bindings.h"
#include "steps/conv.h"
#include "steps/winograd.h"

namespace intact {
namespace {

using Weights = nb::ndarray<const int8_t, nb::ndim<4>, nb::c_contig, nb::device::cpu>;
using Bytes = nb::ndarray<const uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

nb::ndarray<nb::numpy, uint8_t> array_of(std::vector<uint8_t> bytes) {
  auto* const kept = new std::vector<uint8_t>(std::move(bytes));
  const nb::capsule owner(kept, [](void* p) noexcept { delete static_cast<std::vector<uint8_t>*>(p); });
  return {kept->data(), {kept->size()}, owner};
}

nb::ndarray<nb::numpy, uint8_t> pack(const std::string& name, Weights weights, int groups, bool joined,
                                     int high) {
  for (size_t i = 0; i < 4; ++i) {
    require(weights.shape(i) <= (1u << 24), "a size of the weights is out of range");
  }
  const auto size = [&](size_t i) { return static_cast<int32_t>(weights.shape(i)); };
  const GemmWeights shape{size(0), size(1), size(2), size(3), groups, joined, high};
  return array_of(pack_gemm(shape, weights.data(), kernel<GemmOps>(name)));
}

// How many steps of the inner loop, over all panels, run in groups of 1, 2, ... of them, and last as words.
std::array<int64_t, kMostGroup + 1> steps_by_group(const std::string& name, Bytes packed) {
  std::array<int64_t, kMostGroup + 1> found{};
  for (const PackedPanel& p : read_packed(packed.data(), packed.size(), kernel<GemmOps>(name)).panels) {
    for (int size = 1; size <= kMostGroup; ++size) found[size - 1] += int64_t{p.counts[size - 1]} * size;
    if (is_words(p)) found[kMostGroup] += p.steps;
  }
  return found;
}

using Pair = std::array<int64_t, 2>;

// A convolution's spec but for its kernel and windows.
ConvSpec spec_of(const View& x, const View& y, const Bytes& packed, Pair origin,
                 const EpilogueSpec& epilogue) {
  ConvSpec spec{};
  spec.x = x;
  spec.y = y;
  spec.packed = packed.data();
  spec.packed_bytes = packed.size();
  spec.owner = keep(nb::cast(packed));
  spec.origin = origin;
  spec.epilogue = epilogue;
  return spec;
}

NativeStep conv(const std::string& name, const View& x, const View& y, Bytes packed, Pair strides,
                Pair dilations, Pair origin, const EpilogueSpec& epilogue, int threads, int zero,
                const std::optional<View>& low, int shift, const std::vector<int32_t>& high_correction) {
  require(threads >= 1, "a step is run by at least one thread");
  require(zero >= 0 && zero <= 255, "zero points are bytes");
  ConvSpec spec = spec_of(x, y, packed, origin, epilogue);
  spec.kernel = &kernel<GemmOps>(name);
  spec.strides = strides;
  spec.dilations = dilations;
  spec.threads = threads;
  spec.zero = zero;
  spec.low = low;
  spec.shift = shift;
  spec.high_correction = high_correction;
  return native(make_conv(spec));
}

NativeStep chosen(const std::string& name, const View& x, const View& index, const View& y, Bytes packed,
                  const EpilogueSpec& epilogue, int threads, int zero) {
  require(threads >= 1, "a step is run by at least one thread");
  require(zero >= 0 && zero <= 255, "zero points are bytes");
  ChosenSpec spec{spec_of(x, y, packed, {0, 0}, epilogue), index};
  spec.conv.kernel = &kernel<GemmOps>(name);
  spec.conv.threads = threads;
  spec.conv.zero = zero;
  return native(make_chosen(spec));
}

NativeStep winograd(const std::string& name, const View& x, const View& y, Bytes packed, Pair origin,
                    const EpilogueSpec& epilogue, int threads) {
  require(threads >= 1, "a step is run by at least one thread");
  return native(
      make_winograd({spec_of(x, y, packed, origin, epilogue), &kernel<WinogradOps>(name), threads}));
}

// Of a 3x3 window.
void check_taps(const Weights& weights) {
  require(weights.shape(1) == 3 && weights.shape(2) == 3, "Winograd's form is for 3x3 windows");
  require(weights.shape(0) <= (1u << 24) && weights.shape(3) <= (1u << 24),
          "a size of the weights is out of range");
}

bool fits_winograd(Weights weights, int high) {
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

nb::ndarray<nb::numpy, uint8_t> pack_taps(const std::string& name, Weights weights, int high) {
  check_taps(weights);
  return array_of(pack_winograd(static_cast<int32_t>(weights.shape(0)),
                                static_cast<int32_t>(weights.shape(3)), high, weights.data(),
                                kernel<WinogradOps>(name)));
}

}  // namespace

std::shared_ptr<const void> keep(nb::object object) {
  return {new nb::object(std::move(object)), [](const void* p) {
            const nb::gil_scoped_acquire gil;
            delete static_cast<const nb::object*>(p);
          }};
}

void bind_gemm(nb::module_& m) {
  m.def("pack_gemm", &pack, "kernel"_a, "weights"_a.noconvert(), "groups"_a, "joined"_a, "high"_a);
  m.def("gemm_groups", &steps_by_group, "kernel"_a, "packed"_a.noconvert());
  m.def("conv", &conv, "kernel"_a, "x"_a, "y"_a, "packed"_a.noconvert(), "strides"_a, "dilations"_a,
        "origin"_a, "epilogue"_a, "threads"_a = 1, "zero"_a = 0, "low"_a = nb::none(), "shift"_a = 0,
        "high_correction"_a = std::vector<int32_t>());
  m.def("chosen", &chosen, "kernel"_a, "x"_a, "index"_a, "y"_a, "packed"_a.noconvert(), "epilogue"_a,
        "threads"_a, "zero"_a);
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
  m.def("winograd_fits", &fits_winograd, "weights"_a.noconvert(), "high"_a);
  m.def("winograd_pays", &pays_winograd, "kernel"_a, "direct"_a, "sizes"_a, "threads"_a);
  m.def("pack_winograd", &pack_taps, "kernel"_a, "weights"_a.noconvert(), "high"_a);
  m.def("winograd", &winograd, "kernel"_a, "x"_a, "y"_a, "packed"_a.noconvert(), "origin"_a, "epilogue"_a,
        "threads"_a = 1);
}

}  // namespace intact
