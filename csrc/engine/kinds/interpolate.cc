// Sums of elements of x times weights, along an axis (N57): a row of places and of weights for each element
// of y.
#include "engine/fields.h"
#include "engine/kinds.h"
#include "engine/kinds/views.h"
#include "steps/interpolate.h"

namespace intact::engine {
namespace {

struct Interpolate final : PlanStep {
  explicit Interpolate(Fields& f)
      : PlanStep(f, {.follows = true}),
        x(f.reads("x")),
        y(f.writes("y")),
        axis(f.integer("axis")),
        places(f.operand("places")),
        weights(f.operand("weights")) {
    fixed = {places, weights};
  }

  void bind(Binding& binding) const override {
    const int64_t size = binding.shape(x)[static_cast<int>(axis)];
    check_indices(binding, places, {size});
    std::vector<int64_t> read;
    for (const int64_t place : binding.fixed<int64_t>(places))
      read.push_back(place < 0 ? place + size : place);
    const auto factors = binding.fixed<float>(weights);
    binding.add(make_interpolate({binding.view(x),
                                  binding.view(y),
                                  static_cast<int>(axis),
                                  std::move(read),
                                  {factors.begin(), factors.end()},
                                  static_cast<size_t>(binding.shape(places)[1])}));
  }
  int x, y;
  int64_t axis;
  int places, weights;
};

}  // namespace

std::unique_ptr<PlanStep> read_interpolate(Fields& fields) { return std::make_unique<Interpolate>(fields); }

}  // namespace intact::engine
