// AveragePool of codes, MaxPool of codes or float32 (N27); without a kernel over the whole plane.
#include "engine/fields.h"
#include "engine/kinds.h"
#include "engine/kinds/views.h"
#include "engine/kinds/window.h"
#include "steps/copy.h"
#include "steps/pool.h"

namespace intact::engine {
namespace {

constexpr int64_t kLarge = 2;     // times fewer taps, at least, where there is another pass over memory
constexpr int64_t kFew = 16;      // channels that leave most of a register idle
constexpr int64_t kFewBytes = 4;  // where the window is small besides, and passes over bytes cost as much

struct Window {
  Pair kernel{1, 1}, strides{1, 1}, dilations{1, 1};
  std::array<int64_t, 4> pads{};

  // One axis, as a window over columns; and that as one along rows.
  Window along(size_t axis) const {
    return {{kernel[axis], 1}, {strides[axis], 1}, {dilations[axis], 1}, {pads[axis], 0, pads[axis + 2], 0}};
  }
  Window across() const {
    return {{1, kernel[0]}, {1, strides[0]}, {1, dilations[0]}, {0, pads[0], 0, pads[2]}};
  }
};

// Whether every window counts some element along an axis.
bool counts_some(const Window& w, size_t axis, int64_t size, int64_t places, bool include_pads) {
  const int64_t before = include_pads ? w.pads[axis] : 0, after = include_pads ? w.pads[axis + 2] : 0;
  for (int64_t place = 0; place < places; ++place) {
    bool any = false;
    for (int64_t tap = 0; tap < w.kernel[axis] && !any; ++tap) {
      const int64_t at = place * w.strides[axis] + tap * w.dilations[axis] - w.pads[axis];
      any = at >= -before && at < size + after;
    }
    if (!any) return false;
  }
  return true;
}

struct Pool final : PlanStep {
  explicit Pool(Fields& f)
      : PlanStep(f, {.images = true, .by_image = true, .writes_parts = true}),
        x(f.reads("x")),
        y(f.writes("y")),
        is_max(f.one_of("mode", {"average", "max"}) == "max"),
        kernel(f.integers_or_none<2>("kernel")),
        strides(f.pair("strides")),
        dilations(f.pair("dilations")),
        pads(f.integers_of<4>("pads")),
        ceil_mode(f.truth("ceil_mode")),
        count_include_pad(f.truth("count_include_pad")) {}

  void bind(Binding& binding) const override {
    const Shape &from = binding.shape(x), &to = binding.shape(y);
    Window window{{from[2], from[3]}};
    if (kernel) window = {*kernel, strides, dilations, pads};
    const bool include = !is_max && count_include_pad;
    for (size_t i = 0; i < 2; ++i) {
      const int axis = static_cast<int>(i) + 2;
      if (!counts_some(window, i, from[axis], to[axis], include)) {
        fail(INTACT_BAD_SHAPE, where(), "a window over padding alone", "at least one value in every window");
      }
    }
    if (!is_max) return mean(window, binding);
    largest(window, binding);
    if (binding.grid(x) != nullptr) regrid(binding, x, y, binding.view(y));
  }

  void mean(const Window& w, Binding& binding) const {
    const Codes &from = binding.codes(x), &to = binding.codes(y);
    binding.add(make_mean_pool(*binding.kernels.pool,
                               {binding.image(x), binding.image(y), w.kernel, w.strides, w.dilations, w.pads},
                               {count_include_pad, from.scale32(), to.scale32(), from.zero(), to.grid()}));
  }

  void add_max(const View& from, const View& to, const Window& w, Binding& binding) const {
    const PoolSpec spec{from, to, w.kernel, w.strides, w.dilations, w.pads};
    binding.add(from.type == Type::u8 ? make_max_pool(*binding.kernels.pool, spec)
                                      : make_float_max_pool(*binding.kernels.float_steps, spec));
  }

  // The largest number of each window, of large ones first down columns and then along rows: fewer taps.
  void largest(const Window& w, Binding& binding) const {
    const View from = binding.image(x), to = binding.image(y);
    const auto [down, across] = w.kernel;
    if (!binding.has_temporary()) return add_max(from, to, w, binding);
    const bool large = down * across >= kLarge * (down + across);
    const int64_t channels = from.sizes[3];
    const bool few = channels < kFew && (large || from.type == Type::f32 || channels < kFewBytes);
    const auto itemsize = static_cast<int64_t>(bytes_of(from.type));
    const bool dense_rows =
        from.strides[2] == channels * itemsize && (channels == 1 || from.strides[3] == itemsize);
    if (few && dense_rows) return of_few_channels(from, to, w, binding);
    if (!large) return add_max(from, to, w, binding);
    const View between = binding.temporary(from.type, {from.sizes[0], to.sizes[1], from.sizes[2], channels});
    add_max(from, between, w.along(0), binding);
    add_max(between, to, w.along(1).across(), binding);
  }

  // Down columns, with the pixels of a row in place of channels; turned; the same; and back.
  void of_few_channels(const View& from, const View& to, const Window& w, Binding& binding) const {
    const int64_t n = from.sizes[0], height = from.sizes[1], width = from.sizes[2], channels = from.sizes[3];
    const int64_t high = to.sizes[1], wide = to.sizes[2];
    constexpr int kTurned[] = {0, 2, 1, 3};
    const View lines =
        part_of(from, from.offset, {n, height, 1, width * channels},
                {from.strides[0], from.strides[1], 0, static_cast<int64_t>(bytes_of(from.type))});
    const View first = binding.temporary(from.type, {n, high, width, channels});
    const View second = binding.temporary(from.type, {n, width, high, channels});
    const View last = binding.temporary(from.type, {n, wide, high, channels});
    add_max(lines, dense_under(first, {n, high, 1, width * channels}), w.along(0), binding);
    binding.add(make_copy(*binding.kernels.transpose, {turned(first, kTurned), second}));
    add_max(dense_under(second, {n, width, 1, high * channels}),
            dense_under(last, {n, wide, 1, high * channels}), w.along(1), binding);
    binding.add(make_copy(*binding.kernels.transpose, {turned(last, kTurned), to}));
  }

  int x, y;
  bool is_max;
  std::optional<Pair> kernel;
  Pair strides, dilations;
  std::array<int64_t, 4> pads;
  bool ceil_mode, count_include_pad;
};

}  // namespace

std::unique_ptr<PlanStep> read_pool(Fields& fields) { return std::make_unique<Pool>(fields); }

}  // namespace intact::engine
