// Rows of x [..., in] times the block weights of the groups that they choose: the experts of a transformer.
// Of codes by N69, of floats by N67 and N51.
#include "steps/chosen_block_linear.h"

#include "engine/kinds.h"
#include "engine/kinds/block_activations.h"
#include "engine/kinds/block_constants.h"
#include "engine/kinds/packed_blocks.h"
#include "engine/kinds/views.h"
#include "engine/sizes.h"

namespace intact::engine {
namespace {

struct ChosenBlockLinear final : PlanStep {
  explicit ChosenBlockLinear(Fields& f)
      : PlanStep(f, {}),
        x(f.reads("x")),
        ranges(f, true, false),
        index(f.operand("index")),
        y(f.writes("y")),
        w(f),
        bias(f.constant("bias", Type::f32, 1, true)),
        groups(f.integer("groups")) {}

  bool has_codes() const { return ranges.scales != kNoValue; }

  void bind(Binding& binding) const override {
    check_indices(binding, index, {groups});
    const PackedBlocks& packed = PackedBlocks::of(binding, w);
    const RowsWritten to(binding, y);
    const View from = rows_read(binding, x);
    const ChosenBlockSpec rows{from, binding.view(index), to.rows(), groups};
    has_codes() ? add_codes(binding, packed, rows) : add_floats(binding, packed, rows);
    to.finish(binding);
  }

  void add_codes(Binding& binding, const PackedBlocks& packed, const ChosenBlockSpec& rows) const {
    const View scales = BlockRanges::rows(binding, ranges.scales, rows.x.sizes[0]);
    const BlockLinearSpec weights = packed.spec(binding, bias);
    const BlockGemmOps* const many = binding.kernels.block_gemm;
    const bool is_few = rows.y.sizes[0] / groups < static_cast<int64_t>(many->least_rows);
    binding.add(make_chosen_block_codes(is_few ? *binding.kernels.block_gemm_of_few : *many,
                                        {rows, scales, weights}, BlockCut(w.inputs, ranges.block, w.block)));
  }

  void add_floats(Binding& binding, const PackedBlocks& packed, const ChosenBlockSpec& rows) const {
    const BlockFloatWeights weights = packed.float_weights(binding, bias);
    binding.add(make_chosen_block_floats(*binding.kernels.float_gemm, *binding.kernels.block_gemm_of_few,
                                         {rows, weights}, BlockCut(w.inputs, w.inputs, w.block)));
  }

  int x;
  BlockRanges ranges;
  int index, y;
  BlockConstants w;
  int bias;
  int64_t groups;
};

}  // namespace

std::unique_ptr<PlanStep> read_chosen_block_linear(Fields& fields) {
  return std::make_unique<ChosenBlockLinear>(fields);
}

}  // namespace intact::engine
