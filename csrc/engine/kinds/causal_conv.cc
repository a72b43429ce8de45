// Short convolutions over tokens with a state [batch, taps - 1, columns] (N77).
#include "steps/causal_conv.h"

#include "engine/fields.h"
#include "engine/kinds.h"
#include "engine/kinds/views.h"

namespace intact::engine {
namespace {

struct CausalConv final : PlanStep {
  explicit CausalConv(Fields& f)
      : PlanStep(f, {}),
        x(f.reads("x")),
        y(f.writes("y")),
        state(f.writes("state")),
        weight(f.constant("weight", Type::f32, 2)),
        past(f.reads("past", true)),
        bias(f.constant("bias", Type::f32, 1, true)) {}

  void bind(Binding& binding) const override {
    const RowsWritten to(binding, y), new_state(binding, state);
    CausalConvSpec spec{rows_read(binding, x), to.rows(), new_state.rows(), binding.constant(weight), {}, {},
                        binding.shape(x)[0]};
    if (past != kNoValue) spec.past = rows_read(binding, past);
    if (bias != kNoValue) spec.bias = binding.constant(bias);
    binding.add(make_causal_conv(*binding.kernels.float_gemm, spec));
    to.finish(binding);
    new_state.finish(binding);
  }

  int x, y, state, weight, past, bias;
};

}  // namespace

std::unique_ptr<PlanStep> read_causal_conv(Fields& fields) { return std::make_unique<CausalConv>(fields); }

}  // namespace intact::engine
