// Rows of x [rows, width] that tuples of indices choose become updates [n, width], or what the reduction
// makes of both (N58).
#include "engine/fields.h"
#include "engine/kinds.h"
#include "engine/kinds/scattered.h"
#include "engine/kinds/views.h"
#include "steps/scatter_rows.h"

namespace intact::engine {
namespace {

struct ScatterRows final : PlanStep {
  explicit ScatterRows(Fields& f)
      : PlanStep(f, {}),
        x(f.operand("x")),
        index(f.operand("index")),
        updates(f.operand("updates")),
        y(f.writes("y")),
        row_sizes(f.dims("sizes")),
        reduction(f.text("reduction")) {}

  void bind(Binding& binding) const override {
    const std::vector<int64_t> axes = binding.numbers(row_sizes);
    check_indices(binding, index, axes);
    const View to = binding.view(y);
    move(binding, x, binding.view(x), y, to);
    binding.add(
        make_scatter_rows({binding.view(index), binding.view(updates), to, axes, reduction_of(reduction)}));
  }
  int x, index, updates, y;
  std::vector<Dim> row_sizes;
  std::string reduction;
};

}  // namespace

std::unique_ptr<PlanStep> read_scatter_rows(Fields& fields) { return std::make_unique<ScatterRows>(fields); }

}  // namespace intact::engine
