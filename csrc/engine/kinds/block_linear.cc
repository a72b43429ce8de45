// Codes x [..., in] times weights in blocks along `in` (N69): rows as products read them, then products.
#include "steps/block_linear.h"

#include "engine/kinds.h"
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
        x_scales(f.operand("x_scales")),
        x_zero_points(f.operand("x_zero_points", true)),
        y(f.writes("y")),
        w(f),
        bias(f.constant("bias", Type::f32, 1, true)),
        x_block(f.integer("x_block")) {}

  void check(const Checker& checker) const override {
    w.check(checker);
    checker.that(x_block > 0, "blocks of elements");
    checker.that(bias == kNoValue || checker.sizes(bias)[0] == checker.sizes(w.weight)[0],
                 "one number of a bias for each output");
    checker.one_rank(x, y);
    checker.floats(y, x_scales);
    const bool is_signed = checker.is(x, Type::i8);
    checker.that(is_signed || checker.is(x, Type::u8), "int8 or uint8");
    for (const int value : {x_scales, x_zero_points}) {
      if (value == kNoValue) continue;
      checker.that(checker.rank(value) == 0 || checker.rank(value) == checker.rank(x),
                   "a range for each block");
    }
    checker.that(x_zero_points == kNoValue || (!is_signed && checker.is(x_zero_points, Type::u8)),
                 "zero points of uint8");
    check_cut(checker, w.inputs, x_block, w.block);
  }

  Shape output_shape(const Sizes& sizes) const override {
    Shape made = sizes.of(x);
    if (made.last() != w.inputs)
      sizes.mismatch(x, std::to_string(made.last()) + " columns", std::to_string(w.inputs));
    for (const int value : {x_scales, x_zero_points}) {
      if (value == kNoValue) continue;
      const Shape& ranges = sizes.of(value);
      Shape expected = made;
      if (ranges.rank > 0) expected[expected.rank - 1] = (w.inputs - 1) / x_block + 1;
      if (ranges.rank > 0 && !(ranges == expected))
        sizes.mismatch(value, "other sizes", "a range for each block");
    }
    made[made.rank - 1] = sizes.of(w.weight)[0];
    return made;
  }

  void bind(Binding& binding) const override {
    const BlockCut cut(w.inputs, x_block, w.block);
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
                       ranges_of(binding, x_scales, rows),
                       {},
                       temporary(Type::i8, cut.row_bytes() * group),
                       temporary(Type::i32, cut.pieces * group),
                       temporary(Type::f32, cut.x_blocks * group),
                       {}};
    if (x_zero_points != kNoValue) laid.x_zeros = ranges_of(binding, x_zero_points, rows);
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
    const PackedBlocks packed(binding, w);
    BlockLinearSpec spec = packed.spec(binding, bias);
    if (has_zeros) spec.sums = packed.sums(binding, w.weight, cut);
    return spec;
  }

  int x, x_scales, x_zero_points, y;
  BlockConstants w;
  int bias;
  int64_t x_block;
};

}  // namespace

std::unique_ptr<PlanStep> read_block_linear(Fields& fields) { return std::make_unique<BlockLinear>(fields); }

}  // namespace intact::engine
