// The k largest elements along an axis, the first one first, and where they stand (N58).
#include "engine/binding.h"
#include "engine/fields.h"
#include "engine/kinds.h"
#include "steps/top_k.h"

namespace intact::engine {
namespace {

struct TopK final : PlanStep {
  explicit TopK(Fields& f)
      : PlanStep(f, {.strided = true}),
        x(f.reads("x")),
        y(f.writes("y")),
        places(f.writes("places")),
        axis(f.integer("axis")),
        k(f.integer("k")),
        largest(f.truth("largest")) {}

  void bind(Binding& binding) const override {
    binding.add(make_top_k(
        {binding.view(x), binding.view(y), binding.view(places), static_cast<int>(axis), largest}));
  }
  int x, y, places;
  int64_t axis, k;
  bool largest;
};

}  // namespace

std::unique_ptr<PlanStep> read_top_k(Fields& fields) { return std::make_unique<TopK>(fields); }

}  // namespace intact::engine
