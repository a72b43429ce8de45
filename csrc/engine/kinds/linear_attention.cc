// Linear attention over a state [batch, heads, size, value size] (N76).
#include "steps/linear_attention.h"

#include "engine/fields.h"
#include "engine/kinds.h"
#include "engine/kinds/views.h"

namespace intact::engine {
namespace {

struct LinearAttention final : PlanStep {
  explicit LinearAttention(Fields& f)
      : PlanStep(f, {}),
        q(f.reads("q")),
        k(f.reads("k")),
        v(f.reads("v")),
        y(f.writes("y")),
        state(f.writes("state")),
        past(f.reads("past", true)),
        decay(f.reads("decay", true)),
        beta(f.reads("beta", true)),
        heads(f.integer("heads")),
        kv_heads(f.integer("kv_heads")),
        scale(f.real("scale")) {}

  void bind(Binding& binding) const override {
    const RowsWritten to(binding, y), new_state(binding, state);
    LinearAttentionSpec spec{rows_read(binding, q), rows_read(binding, k), rows_read(binding, v), to.rows(),
                             new_state.rows(), {}, {}, {}, binding.shape(q)[0], heads, kv_heads,
                             static_cast<float>(scale)};
    if (past != kNoValue) spec.past = rows_read(binding, past);
    if (decay != kNoValue) spec.decay = rows_read(binding, decay);
    if (beta != kNoValue) spec.beta = rows_read(binding, beta);
    binding.add(make_linear_attention(*binding.kernels.float_gemm, *binding.kernels.float_steps, spec));
    to.finish(binding);
    new_state.finish(binding);
  }

  int q, k, v, y, state, past, decay, beta;
  int64_t heads, kv_heads;
  double scale;
};

}  // namespace

std::unique_ptr<PlanStep> read_linear_attention(Fields& fields) {
  return std::make_unique<LinearAttention>(fields);
}

}  // namespace intact::engine
