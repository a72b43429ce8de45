// A function of one code: entry i, a byte of y, is for byte i of x.
#include "engine/binding.h"
#include "engine/failure.h"
#include "engine/fields.h"
#include "engine/kinds.h"
#include "steps/table.h"

namespace intact::engine {
namespace {

struct Table final : PlanStep {
  explicit Table(Fields& f)
      : PlanStep(f, {.follows = true, .by_image = true, .writes_parts = true}),
        x(f.reads("x")),
        y(f.writes("y")),
        table(f.constant("table", Type::u8, 1)) {
    in_place = {x};
  }

  void bind(Binding& binding) const override {
    binding.part<bool>("checked", [&] { return check_entries(binding); });
    binding.add(
        make_table(*binding.kernels.pointwise, {binding.view(x), binding.constant(table), binding.view(y)}));
  }

  std::shared_ptr<const bool> check_entries(Binding& binding) const {
    const Codes &from = binding.codes(x), &to = binding.codes(y);
    const auto entries = binding.array<uint8_t>(table);
    for (int byte = from.byte_low(); byte <= from.byte_high(); ++byte) {
      const int made = entries[static_cast<size_t>(byte)];
      if (made < to.byte_low() || made > to.byte_high()) {
        fail_file(where(), "a table of byte " + std::to_string(made), "bytes of the output's grid");
      }
    }
    return std::make_shared<const bool>(true);
  }

  int x, y, table;
};

}  // namespace

std::unique_ptr<PlanStep> read_table(Fields& fields) { return std::make_unique<Table>(fields); }

}  // namespace intact::engine
