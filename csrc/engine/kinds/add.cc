// Sum of two tensors of codes (N26), with broadcasting; bounds are codes of the output.
#include "engine/fields.h"
#include "engine/kinds.h"
#include "engine/kinds/views.h"
#include "steps/add.h"

namespace intact::engine {
namespace {

struct Add final : PlanStep {
  explicit Add(Fields& f)
      : PlanStep(f, {.follows = true, .by_image = true, .writes_parts = true}),
        a(f.reads("a")),
        b(f.reads("b")),
        y(f.writes("y")),
        low(f.integer_or_none("low")),
        high(f.integer_or_none("high")) {
    in_place = {a, b};
  }

  void bind(Binding& binding) const override {
    const auto operand = [&](int v) { return Operand{binding.codes(v).zero(), binding.codes(v).scale32()}; };
    const auto bound = [](std::optional<int64_t> n) {
      return n ? std::optional(static_cast<double>(*n)) : std::nullopt;
    };
    const Codes& codes = binding.codes(y);
    const Shape& shape = binding.shape(y);
    const ByteGrid grid = codes.grid(bound(low), bound(high));
    const auto divisor = binding.part<Divisor>(
        "", [&] { return std::make_shared<const Divisor>(divisor_of_sum(codes.scale32(), grid)); });
    binding.add(
        make_add(*binding.kernels.pointwise, {spread(binding.view(a), shape), spread(binding.view(b), shape),
                                              binding.view(y), operand(a), operand(b), *divisor, grid}));
  }

  int a, b, y;
  std::optional<int64_t> low, high;
};

}  // namespace

std::unique_ptr<PlanStep> read_add(Fields& fields) { return std::make_unique<Add>(fields); }

}  // namespace intact::engine
