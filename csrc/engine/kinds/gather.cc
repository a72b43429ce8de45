// y[i, j, k] = x[i, index[j], k] of x, a tensor or a constant; a run that meets an index out of range ends
// there.
#include "engine/checker.h"
#include "engine/fields.h"
#include "engine/kinds.h"
#include "engine/kinds/views.h"
#include "engine/sizes.h"
#include "steps/gather.h"

namespace intact::engine {
namespace {

struct Gather final : PlanStep {
  explicit Gather(Fields& f)
      : PlanStep(f, {.follows = true, .strided = true}),
        x(f.operand("x")),
        index(f.operand("index")),
        y(f.writes("y")),
        axis(f.integer("axis")) {}

  void check(const Checker& checker) const override {
    checker.axis(x, axis);
    checker.that(checker.rank(y) == checker.rank(x) + checker.rank(index) - 1,
                 "all other axes for each index");
    checker.index(index);
    checker.one_dtype(x, y);
    checker.one_grid(x, y);
  }

  Shape output_shape(const Sizes& sizes) const override {
    const Shape &from = sizes.of(x), &rows = sizes.of(index);
    Shape made;
    for (int i = 0; i < from.rank; ++i) {
      if (i != axis) made.push(from[i]);
      if (i == axis) {
        for (const int64_t n : rows) made.push(n);
      }
    }
    return made;
  }

  void bind(Binding& binding) const override {
    check_indices(binding, index, {binding.shape(x)[static_cast<int>(axis)]});
    binding.add(make_gather({binding.view(x), binding.view(index), binding.view(y), static_cast<int>(axis)}));
  }

  int x, index, y;
  int64_t axis;
};

}  // namespace

std::unique_ptr<PlanStep> read_gather(Fields& fields) { return std::make_unique<Gather>(fields); }

}  // namespace intact::engine
