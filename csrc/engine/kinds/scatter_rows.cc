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

  void check(const Checker& checker) const override {
    checker.ranks(2, x, index, updates, y);
    checker.that(!row_sizes.empty(), "sizes of axes");
    for (const Dim& n : row_sizes) checker.that(n.text >= 0 || n.value >= 0, "sizes of axes");
    check_scattered(checker, x, index, updates, y, reduction);
  }
  Shape output_shape(const Sizes& sizes) const override {
    const Shape &from = sizes.of(x), &rows = sizes.of(index);
    if (rows[1] != static_cast<int64_t>(row_sizes.size()) || from[0] != product(sizes.numbers(row_sizes))) {
      sizes.mismatch(index, "shape " + text_of(rows), "tuples for the sizes of the rows");
    }
    const Shape wanted{rows[0], from[1]};
    if (!(sizes.of(updates) == wanted)) sizes.mismatch(updates, text_of(sizes.of(updates)), text_of(wanted));
    return from;
  }
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
