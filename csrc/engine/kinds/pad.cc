// Constant padding, (before, after) for each axis: what it fills with, then x in its place. Bytes fill all of
// y, numbers its rim.
#include "engine/checker.h"
#include "engine/fields.h"
#include "engine/kinds.h"
#include "engine/kinds/views.h"
#include "engine/sizes.h"
#include "steps/copy.h"
#include "steps/fill.h"

namespace intact::engine {
namespace {

constexpr int64_t kMostPad = int64_t{1} << 40;

struct Pad final : PlanStep {
  explicit Pad(Fields& f)
      : PlanStep(f, {.follows = true}),
        x(f.reads("x")),
        y(f.writes("y")),
        pads(f.dim_pairs("pads")),
        fill(f.operand("fill", true)) {}

  void check(const Checker& checker) const override {
    checker.one_dtype(x, y);
    checker.per_axis(x, y, pads.size() / 2);
    for (const Dim& n : pads) checker.that(n.text >= 0 || is_pad(n.value), "pads of 0 or more");
    if (fill == kNoValue) return;
    const Codes* const grid = checker.grid(x);
    checker.that(checker.plan.is_constant(fill), "a constant to fill with");
    const Type wanted = grid == nullptr ? checker.type(x) : grid->is_signed ? Type::i8 : Type::u8;
    checker.that(checker.type(fill) == wanted && checker.sizes(fill) == Shape{1}, "one number to fill with");
  }

  Shape output_shape(const Sizes& sizes) const override {
    Shape made = sizes.of(x);
    const std::vector<int64_t> widths = sizes.numbers(pads);
    for (const int64_t n : widths) {
      if (!is_pad(n)) sizes.mismatch(x, "a pad of " + std::to_string(n), "pads of 0 or more");
    }
    for (int i = 0; i < made.rank; ++i) made[i] += widths[at(i)] + widths[at(i) + 1];
    return made;
  }

  void bind(Binding& binding) const override {
    const View from = binding.view(x), to = binding.view(y);
    const std::vector<int64_t> widths = binding.numbers(pads);
    std::vector<int64_t> starts;
    for (int i = 0; i < from.rank; ++i) starts.push_back(widths[at(i)]);
    if (const Codes* const codes = binding.grid(y)) {
      const int byte = fill == kNoValue ? codes->zero() : code_of(binding) + codes->offset();
      binding.add(make_fill({to, static_cast<uint8_t>(byte)}));
    } else if (fill == kNoValue) {
      binding.add(make_fill({to, 0}));
    } else {
      fill_rim(from, to, widths, binding);
    }
    move(binding, x, from, y, slice_of(to, starts, sizes_of(from)));
  }

  static bool is_pad(int64_t n) { return 0 <= n && n <= kMostPad; }
  // The place of the pad before an axis.
  static size_t at(int axis) { return 2 * static_cast<size_t>(axis); }

  int code_of(Binding& binding) const {
    const bool is_signed = binding.plan.constant(fill).type == Type::i8;
    return is_signed ? binding.array<int8_t>(fill)[0] : binding.array<uint8_t>(fill)[0];
  }

  // The parts of y around x: along each axis what lies before and behind, within x along those before.
  void fill_rim(const View& from, const View& to, const std::vector<int64_t>& widths,
                Binding& binding) const {
    const View one = binding.constant(fill);
    std::vector<int64_t> starts(pads.size() / 2, 0);
    Shape shape = sizes_of(to);
    for (int axis = 0; axis < from.rank; ++axis) {
      const auto i = static_cast<size_t>(axis);
      const int64_t before = widths[at(axis)], after = widths[at(axis) + 1];
      for (const auto& [start, count] :
           {std::pair{int64_t{0}, before}, std::pair{before + from.sizes[i], after}}) {
        if (count == 0) continue;
        starts[i] = start;
        shape[axis] = count;
        const View part = slice_of(to, starts, shape);
        binding.add(make_copy(*binding.kernels.transpose, {spread(one, sizes_of(part)), part}));
      }
      starts[i] = before;
      shape[axis] = from.sizes[i];
    }
  }

  int x, y;
  std::vector<Dim> pads;  // before and after the first axis, then of the next one
  int fill;
};

}  // namespace

std::unique_ptr<PlanStep> read_pad(Fields& fields) { return std::make_unique<Pad>(fields); }

}  // namespace intact::engine
