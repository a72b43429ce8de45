// Codes x [..., in] times weights in blocks along `in` (N69): rows as products read them, then products.
#include "steps/block_linear.h"

#include "engine/kinds.h"
#include "engine/kinds/block_constants.h"
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
    try {
      BlockCut(w.inputs, x_block, w.block);
    } catch (const std::invalid_argument&) {
      checker.that(false,
                   "blocks of one side that are parts of the other's, of 8 elements or multiples, "
                   "with sums that fit int32");
    }
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

  // One range for all rows is a row for each of them.
  static View ranges_of(Binding& binding, int value, int64_t rows) {
    View found = rows_read(binding, value);
    if (binding.shape(value).rank == 0) {
      found.sizes[0] = rows;
      found.strides[0] = 0;
    }
    return found;
  }

  BlockLinearSpec weights(Binding& binding, const BlockCut& cut, bool has_zeros) const {
    const int64_t n = binding.shape(w.weight)[0];
    BlockLinearSpec spec{};
    spec.bits = packed_bits(static_cast<int>(w.bits));
    // Equal bytes of other layers may be codes of other bits.
    const std::string codes_form = std::to_string(w.inputs) + "x" + std::to_string(w.bits);
    const Bytes packed = binding.packed(w.weight, "block_codes_" + codes_form, [&](const Bytes& b) {
      return pack_block_codes(b.bytes, n, w.inputs, static_cast<int>(w.bits));
    });
    spec.weight = vector(binding, packed, Type::u8);
    spec.scales = values<float>(binding, w.scales, "block_scales", n, Type::f32);
    if (w.zero_points != kNoValue) {
      spec.zeros = values<uint8_t>(binding, w.zero_points, "block_zero_points", n, Type::u8);
    } else if (packed_bits(static_cast<int>(w.bits)) != w.bits) {
      // Half of the range of codes that have fewer bits than their panels.
      const std::vector<uint8_t> middles(spec.scales.sizes[0], static_cast<uint8_t>(1 << (w.bits - 1)));
      spec.zeros = binding.hold(middles, Type::u8, {spec.scales.sizes[0]});
    }
    if (w.minima != kNoValue) spec.minima = values<float>(binding, w.minima, "block_minima", n, Type::f32);
    if (bias != kNoValue) spec.bias = values<float>(binding, bias, "block_bias", n, Type::f32);
    if (has_zeros) {
      const std::string form = "block_sums_" + codes_form + "_" + std::to_string(cut.piece);
      const auto sum = [&](const Bytes&) {
        return bytes_of_values(sum_block_codes(packed.bytes, n, spec.bits, cut));
      };
      spec.sums = vector(binding, binding.packed(w.weight, form, sum, Type::i32), Type::i32);
    }
    return spec;
  }

  static View vector(Binding& binding, const Bytes& bytes, Type type) {
    return binding.keep(bytes, type, {static_cast<int64_t>(bytes.bytes.size() / bytes_of(type))});
  }

  template <class T>
  static std::vector<uint8_t> bytes_of_values(const std::vector<T>& values) {
    const auto* const first = reinterpret_cast<const uint8_t*>(values.data());
    return {first, first + values.size() * sizeof(T)};
  }

  template <class T>
  static View values(Binding& binding, int value, const char* form, int64_t n, Type type) {
    const Bytes packed = binding.packed(
        value, form, [&](const Bytes& b) { return bytes_of_values(pack_block_values(b.as<T>(), n)); }, type);
    return vector(binding, packed, type);
  }

  int x, x_scales, x_zero_points, y;
  BlockConstants w;
  int bias;
  int64_t x_block;
};

}  // namespace

std::unique_ptr<PlanStep> read_block_linear(Fields& fields) { return std::make_unique<BlockLinear>(fields); }

}  // namespace intact::engine
