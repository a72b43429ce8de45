// Rows of x [..., in] times the block weights of the groups that they choose: the experts of a transformer.
// Of codes by N69, of floats by N67 and N51.
#include "steps/chosen_block_linear.h"

#include "engine/kinds.h"
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
        x_scales(f.operand("x_scales", true)),
        index(f.operand("index")),
        y(f.writes("y")),
        w(f),
        bias(f.constant("bias", Type::f32, 1, true)),
        x_block(f.integer("x_block")),
        groups(f.integer("groups")) {}

  bool has_codes() const { return x_scales != kNoValue; }

  void check(const Checker& checker) const override {
    w.check(checker);
    const int64_t outputs = checker.sizes(w.weight)[0];
    checker.that(bias == kNoValue || checker.sizes(bias)[0] == outputs,
                 "one number of a bias for each output");
    checker.that(
        groups > 0 && outputs % groups == 0 && outputs / groups % static_cast<int64_t>(kBlockPanel) == 0,
        "groups of outputs that fill panels");
    checker.ranks(2, index, y);
    checker.that(checker.rank(x) > 0, "rows");
    checker.index(index);
    checker.floats(y);
    if (!has_codes()) {
      checker.floats(x);
      checker.that(x_block == 0, "no blocks of floats");
      check_cut(checker, w.inputs, w.inputs, w.block);
      return;
    }
    checker.that(checker.is(x, Type::i8), "codes of int8");
    checker.floats(x_scales);
    checker.that(checker.rank(x_scales) == 0 || checker.rank(x_scales) == checker.rank(x),
                 "a range for each block");
    checker.that(x_block > 0, "blocks of elements");
    check_cut(checker, w.inputs, x_block, w.block);
  }

  Shape output_shape(const Sizes& sizes) const override {
    Shape rows = sizes.of(x);
    if (rows.last() != w.inputs)
      sizes.mismatch(x, std::to_string(rows.last()) + " columns", std::to_string(w.inputs));
    if (has_codes() && sizes.of(x_scales).rank > 0) {
      Shape expected = rows;
      expected[expected.rank - 1] = (w.inputs - 1) / x_block + 1;
      if (!(sizes.of(x_scales) == expected))
        sizes.mismatch(x_scales, "other sizes", "a range for each block");
    }
    --rows.rank;
    const Shape& chosen = sizes.of(index);
    const int64_t count = elements(rows);
    if (chosen[1] != 1 || (count > 0 ? chosen[0] % count != 0 : chosen[0] != 0))
      sizes.mismatch(index, "shape " + text_of(chosen), "as many single indices for each row");
    return {chosen[0], sizes.of(w.weight)[0] / groups};
  }

  void bind(Binding& binding) const override {
    check_indices(binding, index, {groups});
    const PackedBlocks packed(binding, w);
    const RowsWritten to(binding, y);
    const View from = rows_read(binding, x);
    const ChosenBlockSpec rows{from, binding.view(index), to.rows(), groups};
    has_codes() ? add_codes(binding, packed, rows) : add_floats(binding, packed, rows);
    to.finish(binding);
  }

  void add_codes(Binding& binding, const PackedBlocks& packed, const ChosenBlockSpec& rows) const {
    const View scales = ranges_of(binding, x_scales, rows.x.sizes[0]);
    const BlockLinearSpec weights = packed.spec(binding, bias);
    const BlockGemmOps* const many = binding.kernels.block_gemm;
    const bool is_few = rows.y.sizes[0] / groups < static_cast<int64_t>(many->least_rows);
    binding.add(make_chosen_block_codes(is_few ? *binding.kernels.block_gemm_of_few : *many,
                                        {rows, scales, weights}, BlockCut(w.inputs, x_block, w.block)));
  }

  void add_floats(Binding& binding, const PackedBlocks& packed, const ChosenBlockSpec& rows) const {
    BlockFloatWeights weights{
        packed.bits, packed.codes, packed.scales, packed.zeros, packed.zero, packed.minima, {}};
    if (bias != kNoValue) weights.start = binding.constant(bias);
    binding.add(make_chosen_block_floats(*binding.kernels.float_gemm, *binding.kernels.block_gemm_of_few,
                                         {rows, weights}, BlockCut(w.inputs, w.inputs, w.block)));
  }

  int x, x_scales, index, y;
  BlockConstants w;
  int bias;
  int64_t x_block, groups;
};

}  // namespace

std::unique_ptr<PlanStep> read_chosen_block_linear(Fields& fields) {
  return std::make_unique<ChosenBlockLinear>(fields);
}

}  // namespace intact::engine
