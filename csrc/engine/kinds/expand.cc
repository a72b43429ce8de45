// x, a tensor or a constant, broadcast to y's shape. Sizes that y's shape leaves open are those of x.
#include "engine/fields.h"
#include "engine/kinds.h"
#include "engine/kinds/views.h"
#include "engine/sizes.h"

namespace intact::engine {
namespace {

struct Expand final : PlanStep {
  explicit Expand(Fields& f) : PlanStep(f, {.strided = true}), x(f.operand("x")), y(f.writes("y")) {}

  Shape output_shape(const Sizes& sizes) const override {
    const Shape& from = sizes.of(x);
    Shape made;
    made.resize(sizes.declared_rank(y));
    for (int i = 0; i < made.rank; ++i) {
      const int at = i - (made.rank - from.rank);
      made[i] = sizes.declared(y, i).value_or(at < 0 ? 1 : from[at]);
    }
    if (!(sizes.broadcast(x, made, from) == made)) {
      sizes.mismatch(x, "shape " + text_of(from), "one that broadcasts to " + text_of(made));
    }
    return made;
  }

  void bind(Binding& binding) const override {
    const View to = binding.view(y);
    move(binding, x, spread(binding.view(x), sizes_of(to)), y, to);
  }

  int x, y;
};

}  // namespace

std::unique_ptr<PlanStep> read_expand(Fields& fields) { return std::make_unique<Expand>(fields); }

}  // namespace intact::engine
