// Sizes as a tensor of int64: numbers, free sizes and expressions of these.
#include "engine/binding.h"
#include "engine/checker.h"
#include "engine/fields.h"
#include "engine/kinds.h"
#include "engine/sizes.h"
#include "steps/copy.h"

namespace intact::engine {
namespace {

struct SizeVector final : PlanStep {
  explicit SizeVector(Fields& f) : PlanStep(f, {}), y(f.writes("y")), sizes(f.dims("sizes")) {}

  void check(const Checker& checker) const override {
    checker.that(checker.is(y, Type::i64), "numbers of int64");
    const int rank = checker.rank(y);
    checker.that(rank == 1 || (rank == 0 && sizes.size() == 1), "a vector, or a size");
  }
  Shape output_shape(const Sizes& known) const override {
    if (known.declared_rank(y) == 0) return {};
    return {static_cast<int64_t>(sizes.size())};
  }
  void bind(Binding& binding) const override {
    const View held = binding.hold(binding.numbers(sizes), Type::i64, binding.shape(y));
    binding.add(make_copy(*binding.kernels.transpose, {held, binding.view(y)}));
  }

  int y;
  std::vector<Dim> sizes;
};

}  // namespace

std::unique_ptr<PlanStep> read_size_vector(Fields& fields) { return std::make_unique<SizeVector>(fields); }

}  // namespace intact::engine
