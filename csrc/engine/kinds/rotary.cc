// Pairs of x [batch, tokens, heads * size] rotated by the position of their token (N71).
#include "steps/rotary.h"

#include "engine/fields.h"
#include "engine/kinds.h"
#include "engine/kinds/sequence_positions.h"

namespace intact::engine {
namespace {

struct Rotary final : PlanStep {
  explicit Rotary(Fields& f)
      : PlanStep(f, {}),
        x(f.reads("x")),
        last(f.operand("last")),
        y(f.writes("y")),
        cosines(f.constant("cosines", Type::f32, 2)),
        sines(f.constant("sines", Type::f32, 2)),
        heads(f.integer("heads")),
        interleaved(f.truth("interleaved")) {}

  void check(const Checker& checker) const override {
    checker.floats(x, y);
    checker.ranks(3, x, y);
    check_last(checker, last);
    checker.that(checker.sizes(cosines) == checker.sizes(sines), "a sine for each cosine");
    checker.that(0 < heads && heads <= (1 << 24), "1 head or more");
  }

  Shape output_shape(const Sizes& sizes) const override {
    const Shape& shape = sizes.of(x);
    if (shape[2] % heads != 0 || shape[2] / heads < 2 * sizes.of(cosines)[1])
      sizes.mismatch(x, std::to_string(shape[2]) + " columns", "heads as long as their pairs");
    check_last(sizes, last, shape[0]);
    return shape;
  }

  void bind(Binding& binding) const override {
    const RowsWritten to(binding, y);
    binding.add(make_rotary({rows_read(binding, x), to.rows(), view_last(binding, last),
                             binding.constant(cosines), binding.constant(sines), heads, interleaved}));
    to.finish(binding);
  }

  int x, last, y, cosines, sines;
  int64_t heads;
  bool interleaved;
};

}  // namespace

std::unique_ptr<PlanStep> read_rotary(Fields& fields) { return std::make_unique<Rotary>(fields); }

}  // namespace intact::engine
