"""LayerNorm."""

from __future__ import annotations

from intact.engine.cpu.binding import Binding, binds
from intact.engine.cpu.steps.base.operands import constant_or_none, operand_of
from intact.engine.steps import LayerNorm
from intact.kernels import NativeStep, Real, View, float_steps


@binds(LayerNorm)
def bind_layer_norm(step: LayerNorm, binding: Binding) -> list[NativeStep]:
    """LayerNorm, with the residual that is added in front of it."""
    return native_layer_norm(step, binding)


def native_layer_norm(
    step: LayerNorm, binding: Binding, codes: Real | None = None, factors: View | None = None
) -> list[NativeStep]:
    """LayerNorm, with the residual that is added in front of it.

    Args:
        codes: Where the codes of what it makes go; None: there are none.
        factors: By what the elements of a row are multiplied in front of that; None: nothing.
    """
    weight, bias = (constant_or_none(binding, name) for name in (step.weight, step.bias))
    residual = operand_of(binding, step.residual) if step.residual else None
    return [
        float_steps.layer_norm(
            operand_of(binding, step.x),
            operand_of(binding, step.y),
            step.epsilon,
            weight=weight,
            bias=bias,
            residual=residual,
            codes=codes,
            factors=factors,
            kernels=binding.kernels,
        )
    ]
