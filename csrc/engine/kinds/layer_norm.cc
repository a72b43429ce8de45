// LayerNorm over the last axis, of x (+ a residual).
#include "engine/kinds.h"
#include "engine/kinds/fusible.h"
#include "engine/kinds/norm_step.h"

namespace intact::engine {

LayerNorm::LayerNorm(Fields& f)
    : PlanStep(f, {}),
      x(f.reads("x")),
      y(f.writes("y")),
      weight(f.constant("weight", Type::f32, 1, true)),
      bias(f.constant("bias", Type::f32, 1, true)),
      epsilon(f.real("epsilon")),
      residual(f.reads("residual", true)) {
  in_place = {x};
}

void LayerNorm::bind(Binding& binding) const {
  binding.add(
      make_layer_norm(*binding.kernels.float_steps, *binding.kernels.transpose, norm_spec(*this, binding)));
}

LayerNormSpec norm_spec(const LayerNorm& step, Binding& binding) {
  LayerNormSpec spec{binding.real_in(step.x),  {}, {}, {},
                     binding.real_out(step.y), {}, {}, static_cast<float>(step.epsilon)};
  if (step.residual != kNoValue) spec.residual = binding.real_in(step.residual);
  if (step.weight != kNoValue) spec.weight = binding.constant(step.weight);
  if (step.bias != kNoValue) spec.bias = binding.constant(step.bias);
  return spec;
}

std::unique_ptr<PlanStep> read_layer_norm(Fields& fields) { return std::make_unique<LayerNorm>(fields); }

}  // namespace intact::engine
