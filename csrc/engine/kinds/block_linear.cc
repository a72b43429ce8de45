// Codes x [..., in] times weights in blocks along `in` (N69): rows as products read them, then products.
#include "steps/block_linear.h"

#include "engine/kinds.h"
#include "engine/kinds/block_activations.h"
#include "engine/kinds/block_constants.h"
#include "engine/kinds/packed_blocks.h"
#include "engine/kinds/views.h"
#include "engine/sizes.h"

namespace intact::engine {
namespace {

struct BlockLinear final : PlanStep {
  explicit BlockLinear(Fields& f)
      : PlanStep(f, {.writes_parts = true}),
        x(f.reads("x")),
        ranges(f, false, true),
        y(f.writes("y")),
        w(f),
        bias(f.constant("bias", Type::f32, 1, true)) {}

  void bind(Binding& binding) const override {
    const BlockCut cut(w.inputs, ranges.block, w.block);
    const View from = rows_read(binding, x);
    const int64_t rows = from.sizes[0];
    const BlockGemmOps* const many = binding.kernels.block_gemm;
    const bool is_few = rows < static_cast<int64_t>(many->least_rows);
    const BlockGemmOps& ops = is_few ? *binding.kernels.block_gemm_of_few : *many;
    const auto group = static_cast<int64_t>(ops.group), groups = (rows + group - 1) / group;
    const auto temporary = [&](Type type, int64_t columns) {
      return binding.temporary(type, {groups, columns});
    };
    BlockRowsSpec laid{from,
                       BlockRanges::rows(binding, ranges.scales, rows),
                       {},
                       temporary(Type::i8, cut.row_bytes() * group),
                       temporary(Type::i32, cut.pieces * group),
                       temporary(Type::f32, cut.x_blocks * group),
                       {}};
    if (ranges.zero_points != kNoValue) laid.x_zeros = BlockRanges::rows(binding, ranges.zero_points, rows);
    const bool is_unsigned = from.type == Type::u8;
    if (is_unsigned) laid.zeros = temporary(Type::i32, cut.x_blocks * group);
    const RowsWritten to(binding, y);
    BlockLinearSpec spec = weights(binding, cut, is_unsigned);
    spec.x_codes = laid.codes;
    spec.negatives = laid.negatives;
    spec.x_scales = laid.scales;
    spec.x_zeros = laid.zeros;
    spec.y = to.rows();
    binding.add(make_block_rows(ops, laid, cut));
    binding.add(make_block_linear(ops, spec, cut));
    to.finish(binding);
  }

  BlockLinearSpec weights(Binding& binding, const BlockCut& cut, bool has_zeros) const {
    const PackedBlocks& packed = PackedBlocks::of(binding, w);
    BlockLinearSpec spec = packed.spec(binding, bias);
    if (has_zeros) spec.sums = packed.sums(binding, w.weight, cut);
    return spec;
  }

  int x;
  BlockRanges ranges;
  int y;
  BlockConstants w;
  int bias;
};

}  // namespace

std::unique_ptr<PlanStep> read_block_linear(Fields& fields) { return std::make_unique<BlockLinear>(fields); }

}  // namespace intact::engine
