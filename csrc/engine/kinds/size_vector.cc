// Sizes as a tensor of int64: numbers, free sizes and expressions of these.
#include "engine/binding.h"
#include "engine/fields.h"
#include "engine/kinds.h"
#include "engine/sizes.h"
#include "steps/copy.h"

namespace intact::engine {
namespace {

struct SizeVector final : PlanStep {
  explicit SizeVector(Fields& f) : PlanStep(f, {}), y(f.writes("y")), sizes(f.dims("sizes")) {}

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
