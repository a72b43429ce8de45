// The same codes under another grid: a DequantizeLinear has other parameters than its QuantizeLinear. The
// same bytes, or all of them so much above.
#include "engine/binding.h"
#include "engine/checker.h"
#include "engine/fields.h"
#include "engine/kinds.h"
#include "steps/copy.h"
#include "steps/table.h"

namespace intact::engine {
namespace {

struct Reinterpret final : PlanStep {
  explicit Reinterpret(Fields& f)
      : PlanStep(f, {.follows = true, .by_image = true}), x(f.reads("x")), y(f.writes("y")) {
    in_place = {x};
  }

  void check(const Checker& checker) const override {
    checker.codes(x, y);
    const Codes &from = *checker.grid(x), &to = *checker.grid(y);
    const bool within = from.is_signed == to.is_signed && to.low <= from.low && from.high <= to.high;
    checker.that(within, "codes within those of the output");
  }

  void bind(Binding& binding) const override {
    const View from = binding.view(x), to = binding.view(y);
    if (const int further = binding.codes(y).offset() - binding.codes(x).offset(); further != 0) {
      std::vector<uint8_t> table(256);
      for (int i = 0; i < 256; ++i)
        table[static_cast<size_t>(i)] = static_cast<uint8_t>(std::clamp(i + further, 0, 255));
      binding.add(make_table(*binding.kernels.pointwise, {from, binding.hold(table, Type::u8, {256}), to}));
    } else if (!Binding::same_memory(from, to)) {
      binding.add(make_copy(*binding.kernels.transpose, {from, to}));
    }
  }

  int x, y;
};

}  // namespace

std::unique_ptr<PlanStep> read_reinterpret(Fields& fields) { return std::make_unique<Reinterpret>(fields); }

}  // namespace intact::engine
