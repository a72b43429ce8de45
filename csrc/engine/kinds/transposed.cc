#include "engine/kinds/transposed.h"

#include <numeric>

#include "engine/kinds/views.h"

namespace intact::engine {
namespace {

// Every so many taps of a kernel, as plan files call them.
std::string named(const std::vector<int64_t>& taps) {
  if (taps.empty()) return "none";
  return std::to_string(taps.front()) + "-" + std::to_string(taps.back()) + "-" + std::to_string(taps.size());
}

bool same_window(const Phase& a, const Phase& b) {
  return a.origin == b.origin && a.taps.size() == b.taps.size() && a.dilation == b.dilation;
}

// Whether the outputs of all phases are neighbours.
bool side_by_side(const std::vector<Phase>& phases, const std::vector<const View*>& images) {
  const auto count = static_cast<int64_t>(phases.size());
  bool found = !phases[0].taps.empty();
  for (const View* image : images) {
    const auto itemsize = static_cast<int64_t>(bytes_of(image->type));
    found = found && image->sizes[2] % count == 0 && image->strides[2] == image->sizes[3] * itemsize;
  }
  return found;
}

}  // namespace

TransposedWindow::TransposedWindow(Fields& f)
    : strides(f.pair("strides")),
      dilations(f.pair("dilations")),
      pads(f.integers_of<4>("pads")),
      output_padding(f.pair("output_padding")),
      groups(f.integer("groups")) {}

Shape TransposedWindow::output_shape(const Sizes& sizes, int x, const Shape& weight) const {
  const Shape& image = sizes.of(x);
  Shape made{image[0], weight[0], 0, 0};
  for (size_t i = 0; i < 2; ++i) {
    const int axis = static_cast<int>(i);
    const int64_t size = product(std::max<int64_t>(image[axis + 2] - 1, 0), strides[i]);
    const int64_t start = image[axis + 2] == 0 ? -strides[i] : std::min(size, int64_t{1} << 50);
    made[axis + 2] =
        start + (weight[axis + 1] - 1) * dilations[i] + 1 + output_padding[i] - pads[i] - pads[i + 2];
    if (made[axis + 2] < 1) sizes.mismatch(x, text_of(image), "sizes of which the pads leave something");
  }
  return made;
}

Halo TransposedWindow::halo(const Shape& weight) const {
  Halo found{};
  for (size_t i = 0; i < 2; ++i) {
    const int64_t reach = (weight[static_cast<int>(i) + 1] - 1) * dilations[i];
    found[i] = std::max<int64_t>(0, reach - pads[i]) / strides[i];
    found[i + 2] = std::max<int64_t>(0, reach + output_padding[i] - pads[i + 2]) / strides[i];
  }
  return found;
}

std::vector<Phase> phases_of(int64_t taps, int64_t stride, int64_t dilation, int64_t pad) {
  std::vector<Phase> found;
  for (int64_t first = 0; first < stride; ++first) {
    Phase phase{first, {}, 0, dilation / std::gcd(stride, dilation)};
    for (int64_t k = taps; k-- > 0;) {
      if ((first + pad - k * dilation) % stride == 0) phase.taps.push_back(k);
    }
    if (!phase.taps.empty()) phase.origin = (first + pad - phase.taps[0] * dilation) / stride;
    found.push_back(std::move(phase));
  }
  return found;
}

std::vector<PhaseBlock> phase_blocks(const std::vector<Phase>& down, const std::vector<Phase>& across,
                                     int64_t groups, const std::vector<const View*>& images) {
  bool joined = groups == 1 && side_by_side(across, images);
  for (const Phase& w : across) joined = joined && same_window(w, across[0]);
  const View& y = *images[0];
  std::vector<PhaseBlock> found;
  for (const Phase& h : down) {
    if (h.first >= y.sizes[1]) break;
    for (size_t i = 0; i < across.size(); i += joined ? across.size() : 1) {
      if (across[i].first >= y.sizes[2]) break;
      PhaseBlock block{&h, {}, named(h.taps) + "."};
      for (size_t n = i; n < (joined ? across.size() : i + 1); ++n) {
        block.label += (block.across.empty() ? "" : "+") + named(across[n].taps);
        block.across.push_back(&across[n]);
      }
      found.push_back(std::move(block));
    }
  }
  return found;
}

View every_pixel(const View& image, const Pair& first, const Pair& strides, int64_t number) {
  const auto& s = image.strides;
  const int64_t offset = static_cast<int64_t>(image.offset) + first[0] * s[1] + first[1] * s[2];
  const auto count = [](int64_t size, int64_t from, int64_t hop) { return (size - from + hop - 1) / hop; };
  return part_of(image, static_cast<size_t>(offset),
                 {image.sizes[0], count(image.sizes[1], first[0], strides[0]),
                  count(image.sizes[2], first[1], strides[1]), number * image.sizes[3]},
                 {s[0], s[1] * strides[0], s[2] * strides[1], s[3]});
}

}  // namespace intact::engine
