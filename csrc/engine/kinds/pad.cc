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
        pads(f.pairs("pads")),
        fill(f.operand("fill", true)) {}

  void check(const Checker& checker) const override {
    checker.one_dtype(x, y);
    checker.per_axis(x, y, pads.size());
    for (const auto& [before, after] : pads) {
      checker.that(0 <= before && before <= kMostPad && 0 <= after && after <= kMostPad, "pads of 0 or more");
    }
    if (fill == kNoValue) return;
    const Codes* const grid = checker.grid(x);
    checker.that(checker.plan.is_constant(fill), "a constant to fill with");
    const Type wanted = grid == nullptr ? checker.type(x) : grid->is_signed ? Type::i8 : Type::u8;
    checker.that(checker.type(fill) == wanted && checker.sizes(fill) == Shape{1}, "one number to fill with");
  }

  Shape output_shape(const Sizes& sizes) const override {
    Shape made = sizes.of(x);
    for (int i = 0; i < made.rank; ++i) {
      const auto& [before, after] = pads[static_cast<size_t>(i)];
      made[i] += before + after;
    }
    return made;
  }

  void bind(Binding& binding) const override {
    const View from = binding.view(x), to = binding.view(y);
    std::vector<int64_t> starts;
    for (const auto& pair : pads) starts.push_back(pair[0]);
    if (const Codes* const codes = binding.grid(y)) {
      const int byte = fill == kNoValue ? codes->zero() : code_of(binding) + codes->offset();
      binding.add(make_fill({to, static_cast<uint8_t>(byte)}));
    } else if (fill == kNoValue) {
      binding.add(make_fill({to, 0}));
    } else {
      fill_rim(from, to, binding);
    }
    move(binding, x, from, y, slice_of(to, starts, sizes_of(from)));
  }

  int code_of(Binding& binding) const {
    const bool is_signed = binding.plan.constant(fill).type == Type::i8;
    return is_signed ? binding.array<int8_t>(fill)[0] : binding.array<uint8_t>(fill)[0];
  }

  // The parts of y around x: along each axis what lies before and behind, within x along those before.
  void fill_rim(const View& from, const View& to, Binding& binding) const {
    const View one = binding.constant(fill);
    std::vector<int64_t> starts(pads.size(), 0);
    Shape shape = sizes_of(to);
    for (int axis = 0; axis < from.rank; ++axis) {
      const auto at = static_cast<size_t>(axis);
      const auto [before, after] = pads[at];
      for (const auto& [start, count] :
           {std::pair{int64_t{0}, before}, std::pair{before + from.sizes[at], after}}) {
        if (count == 0) continue;
        starts[at] = start;
        shape[axis] = count;
        const View part = slice_of(to, starts, shape);
        binding.add(make_copy(*binding.kernels.transpose, {spread(one, sizes_of(part)), part}));
      }
      starts[at] = before;
      shape[axis] = from.sizes[at];
    }
  }

  int x, y;
  std::vector<std::array<int64_t, 2>> pads;
  int fill;
};

}  // namespace

std::unique_ptr<PlanStep> read_pad(Fields& fields) { return std::make_unique<Pad>(fields); }

}  // namespace intact::engine
