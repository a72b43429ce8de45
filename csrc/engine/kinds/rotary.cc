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
