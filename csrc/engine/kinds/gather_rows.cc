// Rows of x that tuples of indices choose: y [n, width]; the first tuples, one part of them, are those of x's
// first rows. A run that meets an index out of range ends there.
#include "engine/fields.h"
#include "engine/kinds.h"
#include "engine/kinds/views.h"
#include "steps/gather_rows.h"

namespace intact::engine {
namespace {

struct GatherRows final : PlanStep {
  explicit GatherRows(Fields& f)
      : PlanStep(f, {}),
        x(f.operand("x")),
        index(f.operand("index")),
        y(f.writes("y")),
        row_sizes(f.dims("sizes")) {}

  static int64_t parts(int64_t rows, int64_t each) { return each > 0 ? rows / each : 0; }

  void bind(Binding& binding) const override {
    const std::vector<int64_t> axes = binding.numbers(row_sizes);
    check_indices(binding, index, axes);
    const View from = binding.view(x);
    binding.add(make_gather_rows(
        {from, binding.view(index), binding.view(y), axes, parts(from.sizes[0], product(axes))}));
  }
  int x, index, y;
  std::vector<Dim> row_sizes;
};

}  // namespace

std::unique_ptr<PlanStep> read_gather_rows(Fields& fields) { return std::make_unique<GatherRows>(fields); }

}  // namespace intact::engine
