// Rows of x that tuples of indices choose: y [n, width]; the first tuples, one part of them, are those of x's
// first rows. A run that meets an index out of range ends there.
#include "engine/checker.h"
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

  void check(const Checker& checker) const override {
    checker.ranks(2, x, index, y);
    checker.that(!row_sizes.empty(), "sizes of axes");
    for (const Dim& n : row_sizes) checker.that(n.text >= 0 || n.value >= 0, "sizes of axes");
    checker.index(index);
    checker.one_dtype(x, y);
    checker.one_grid(x, y);
  }
  static int64_t parts(int64_t rows, int64_t each) { return each > 0 ? rows / each : 0; }

  Shape output_shape(const Sizes& sizes) const override {
    const Shape &from = sizes.of(x), &rows = sizes.of(index);
    const int64_t each = product(sizes.numbers(row_sizes)), count = parts(from[0], each);
    if (rows[1] != static_cast<int64_t>(row_sizes.size()) || from[0] != product(count, each)) {
      sizes.mismatch(index, "shape " + text_of(rows), "tuples for the sizes of the rows");
    }
    if (count > 0 ? rows[0] % count != 0 : rows[0] != 0) {
      sizes.mismatch(index, std::to_string(rows[0]) + " tuples", "as many for each part");
    }
    return {rows[0], from[1]};
  }
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
