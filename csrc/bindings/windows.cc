// What calibration asks of the windows of convolutions.
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <tuple>
#include <vector>

#include "bindings/bindings.h"
#include "calibration/windows.h"

namespace intact {
namespace {

using SpanTuple = std::tuple<size_t, size_t, size_t>;
using AxisTuple = std::tuple<size_t, std::vector<SpanTuple>>;

std::vector<WindowAxis> window_axes(const std::vector<AxisTuple>& given) {
  std::vector<WindowAxis> axes;
  for (const auto& [size, spans] : given) {
    require(size > 0 && !spans.empty(), "a size and taps for each axis");
    axes.push_back({size, {}});
    for (const auto& [start, stop, step] : spans) {
      require(stop <= size && step > 0, "taps see positions that there are");
      axes.back().taps.push_back({start, stop, step});
    }
  }
  return axes;
}

}  // namespace

void bind_windows(nb::module_& m) {
  m.def(
      "window_sums",
      [](FloatsIn x, size_t samples, size_t channels, const std::vector<AxisTuple>& given,
         Dense<double> out) {
        const std::vector<WindowAxis> axes = window_axes(given);
        size_t size = samples * channels, taps = channels;
        for (const WindowAxis& axis : axes) {
          size *= axis.size;
          taps *= axis.taps.size();
        }
        require(size > 0 && x.size() == size && out.size() == taps, "sizes differ");
        nb::gil_scoped_release release;
        window_sums(x.data(), samples, channels, axes, out.data());
      },
      "x"_a.noconvert(), "samples"_a, "channels"_a, "axes"_a, "out"_a.noconvert());
  m.def(
      "gather_windows",
      [](FloatsIn x, size_t pixels, size_t first, size_t groups, size_t channels, Dense<const int64_t> at,
         size_t taps, FloatsOut out) {
        require(pixels > 0 && taps > 0 && at.size() % taps == 0, "an entry for each place and tap");
        require(out.size() == groups * channels * at.size(), "sizes differ");
        const size_t channel = first + groups * channels;  // the first one behind those that are read
        require(channel * pixels <= x.size(), "channels that there are");
        const auto last = static_cast<int64_t>(x.size() - (channel == 0 ? 0 : channel - 1) * pixels);
        for (size_t i = 0; i < at.size(); ++i) {
          require(at.data()[i] >= -1 && at.data()[i] < last, "places that there are");
        }
        nb::gil_scoped_release release;
        gather_windows(x.data(), pixels, first, groups, channels, {at.data(), at.size() / taps, taps},
                       out.data());
      },
      "x"_a.noconvert(), "pixels"_a, "first"_a, "groups"_a, "channels"_a, "at"_a.noconvert(), "taps"_a,
      "out"_a.noconvert());
}

}  // namespace intact
