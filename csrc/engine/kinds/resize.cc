// Nearest neighbour: for each axis that changes, a constant or what follows from sizes says what y reads.
#include "engine/fields.h"
#include "engine/kinds.h"
#include "engine/kinds/views.h"
#include "engine/sizes.h"
#include "steps/resize.h"

namespace intact::engine {
namespace {

struct Resize final : PlanStep {
  explicit Resize(Fields& f)
      : PlanStep(f, {.follows = true}),
        x(f.reads("x")),
        y(f.writes("y")),
        axes(f.integers("axes")),
        indices(f.many("indices", Role::operand)) {
    fixed = indices;
  }

  Shape output_shape(const Sizes& sizes) const override {
    Shape made = sizes.of(x);
    for (size_t i = 0; i < axes.size(); ++i) made[static_cast<int>(axes[i])] = sizes.of(indices[i])[0];
    return made;
  }

  void bind(Binding& binding) const override {
    const Shape& shape = binding.shape(y);
    std::vector<std::vector<int64_t>> read(static_cast<size_t>(shape.rank));
    for (int i = 0; i < shape.rank; ++i) {
      auto& list = read[static_cast<size_t>(i)];
      const auto found = std::find(axes.begin(), axes.end(), i);
      if (found != axes.end()) {
        const auto given = binding.fixed<int64_t>(indices[static_cast<size_t>(found - axes.begin())]);
        list.assign(given.begin(), given.end());
        continue;
      }
      for (int64_t n = 0; n < shape[i]; ++n) list.push_back(n);
    }
    binding.add(make_resize({binding.view(x), binding.view(y), std::move(read)}));
    regrid(binding, x, y, binding.view(y));
  }

  int x, y;
  std::vector<int64_t> axes;
  std::vector<int> indices;
};

}  // namespace

std::unique_ptr<PlanStep> read_resize(Fields& fields) { return std::make_unique<Resize>(fields); }

}  // namespace intact::engine
