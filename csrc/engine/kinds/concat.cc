// Concatenation. Inputs on another grid than y are rescaled (N28); constants are plain numbers.
#include "engine/fields.h"
#include "engine/kinds.h"
#include "engine/kinds/moved.h"
#include "engine/kinds/views.h"
#include "engine/sizes.h"

namespace intact::engine {

Concat::Concat(Fields& f)
    : PlanStep(f, {.follows = true, .by_image = true}),
      xs(f.many("xs", Role::operand)),
      y(f.writes("y")),
      axis(f.integer("axis")) {}

Shape Concat::output_shape(const Sizes& sizes) const {
  Shape made = sizes.of(xs[0]);
  const int along = static_cast<int>(axis < 0 ? axis + made.rank : axis);
  made[along] = 0;
  for (const int x : xs) {
    const Shape& shape = sizes.of(x);
    for (int i = 0; i < made.rank; ++i) {
      if (i != along && shape[i] != made[i]) {
        sizes.mismatch(x, "size " + std::to_string(shape[i]) + " in dimension " + std::to_string(i),
                       std::to_string(made[i]));
      }
    }
    made[along] += shape[along];
    if (made[along] > kMostSize / 2) sizes.mismatch(x, "too many elements", "fewer");
  }
  return made;
}

void Concat::bind(Binding& binding) const {
  const View to = binding.view(y);
  const auto along = static_cast<size_t>(axis < 0 ? axis + to.rank : axis);
  std::vector<int64_t> starts(static_cast<size_t>(to.rank), 0);
  for (const int x : xs) {
    const View from = binding.view(x);
    move(binding, x, from, y, slice_of(to, starts, sizes_of(from)));
    starts[along] += from.sizes[along];
  }
}

std::unique_ptr<PlanStep> read_concat(Fields& fields) { return std::make_unique<Concat>(fields); }

}  // namespace intact::engine
