// Rows, by an index, of a constant table of codes in blocks, as floats (N67); a run that meets an index out
// of range ends there.
#include "engine/kinds.h"
#include "engine/kinds/packed_blocks.h"
#include "engine/kinds/views.h"
#include "steps/block_gather.h"

namespace intact::engine {
namespace {

struct BlockGather final : PlanStep {
  explicit BlockGather(Fields& f)
      : PlanStep(f, {.writes_parts = true}), index(f.operand("index")), y(f.writes("y")), table(f) {}

  void bind(Binding& binding) const override {
    check_indices(binding, index, {binding.shape(table.weight)[0]});
    const View rows_of_indices = rows_read(binding, index);
    const RowsWritten to(binding, y);
    BlockGatherSpec spec{rows_of_indices,
                         to.rows(),
                         {},
                         false,
                         {},
                         levels(binding, table.scales, table.sub_scales),
                         {},
                         {},
                         static_cast<int>(table.bits),
                         table.block};
    // Products that share the table have its codes in panels: then nobody reads those of the file.
    spec.is_packed = binding.is_packed(table.weight, table.panels);
    if (spec.is_packed) {
      spec.codes = packed_vector(binding, panels_of(binding, table), Type::u8);
    } else {
      spec.codes = binding.constant(table.weight);
    }
    if (table.table != kNoValue) spec.table = binding.constant(table.table);
    if (table.zero_points != kNoValue) spec.zeros = binding.constant(table.zero_points);
    if (table.minima != kNoValue) spec.minima = levels(binding, table.minima, table.sub_minima);
    binding.add(make_block_gather(spec));
    to.finish(binding);
  }

  static BlockRowValues levels(Binding& binding, int reals, int fine) {
    BlockRowValues found{binding.constant(reals), {}};
    if (fine != kNoValue) found.fine = binding.constant(fine);
    return found;
  }

  int index, y;
  BlockConstants table;
};

}  // namespace

std::unique_ptr<PlanStep> read_block_gather(Fields& fields) { return std::make_unique<BlockGather>(fields); }

}  // namespace intact::engine
