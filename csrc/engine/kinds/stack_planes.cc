// Volumes [n * depth, c, h, w], plane by plane, as images [n * places, kernel * c, h, w]: for each place of a
// window over the depth the planes under it (N61); or as rows [n * places, c, h * kernel, w].
#include "engine/fields.h"
#include "engine/kinds.h"
#include "engine/kinds/views.h"
#include "steps/fill.h"

namespace intact::engine {
namespace {

int64_t floor_div(int64_t a, int64_t b) { return a / b - (a % b < 0 ? 1 : 0); }  // b > 0

struct StackPlanes final : PlanStep {
  explicit StackPlanes(Fields& f)
      : PlanStep(f, {.images = true}),
        x(f.reads("x")),
        y(f.writes("y")),
        depth(f.integer("depth")),
        kernel(f.integer("kernel")),
        stride(f.integer("stride")),
        dilation(f.integer("dilation")),
        pads(f.pair("pads")),
        rows(f.truth("rows")),
        repeats(f.truth("repeats")) {}

  int64_t places() const {
    return floor_div(depth + pads[0] + pads[1] - (kernel - 1) * dilation - 1, stride) + 1;
  }

  void bind(Binding& binding) const override {
    const View from = binding.view(x), to = binding.view(y);
    for (int64_t tap = 0; tap < kernel; ++tap) {
      // The windows whose plane `tap` there is, and which that is for the first of them.
      const int64_t first = tap * dilation - pads[0];
      const int64_t begin = std::min(std::max<int64_t>(0, -floor_div(first, stride)), places());
      const int64_t end = std::max(begin, std::min(places(), floor_div(depth - 1 - first, stride) + 1));
      add_outside(from, to, tap, 0, begin, 0, binding);
      add_outside(from, to, tap, end, places(), depth - 1, binding);
      if (begin < end)
        add_copy(from, under(from, to, tap, begin, end), first + begin * stride, stride, binding);
    }
  }

  // What windows have of a plane: [volumes, windows, channels, height, width].
  View under(const View& from, const View& to, int64_t tap, int64_t begin, int64_t end) const {
    const int64_t height = to.strides[2];
    const int64_t hop = rows ? height : from.sizes[1] * to.strides[1],
                  by_row = rows ? kernel * height : height;
    const int64_t offset = static_cast<int64_t>(to.offset) + begin * to.strides[0] + tap * hop;
    return part_of(to, static_cast<size_t>(offset),
                   {from.sizes[0] / depth, end - begin, from.sizes[1], from.sizes[2], from.sizes[3]},
                   {places() * to.strides[0], to.strides[0], to.strides[1], by_row, to.strides[3]});
  }

  // Planes of each volume, `hop` from one window to the next.
  void add_copy(const View& from, const View& to, int64_t plane, int64_t hop, Binding& binding) const {
    const int64_t step = from.strides[0];
    const View planes =
        part_of(from, from.offset + static_cast<size_t>(plane * step), sizes_of(to),
                {depth * step, hop * step, from.strides[1], from.strides[2], from.strides[3]});
    move(binding, x, planes, y, to);
  }

  // The nearest plane, or real 0, where there is none.
  void add_outside(const View& from, const View& to, int64_t tap, int64_t begin, int64_t end, int64_t nearest,
                   Binding& binding) const {
    if (begin >= end) return;
    const View part = under(from, to, tap, begin, end);
    if (repeats) return add_copy(from, part, nearest, 0, binding);
    const Codes* const codes = binding.grid(y);
    binding.add(make_fill({part, static_cast<uint8_t>(codes == nullptr ? 0 : codes->zero())}));
  }

  int x, y;
  int64_t depth, kernel, stride, dilation;
  std::array<int64_t, 2> pads;
  bool rows, repeats;
};

}  // namespace

std::unique_ptr<PlanStep> read_stack_planes(Fields& fields) { return std::make_unique<StackPlanes>(fields); }

}  // namespace intact::engine
