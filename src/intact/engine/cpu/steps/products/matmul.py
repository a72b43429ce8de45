"""Products of two tensors of codes."""

from __future__ import annotations

from intact.engine.cpu.binding import Binding, binds
from intact.engine.cpu.steps.base.operands import operand_of, spread
from intact.engine.cpu.steps.base.products import matrices_under, product_of
from intact.engine.steps import MatMul
from intact.kernels import NativeStep, float_steps


@binds(MatMul)
def bind_matmul(step: MatMul, binding: Binding) -> list[NativeStep]:
    """Product of two activations, read where they lie."""
    a = spread(binding, step.a, matrices_under(binding, step.a, binding.shape(step.y)))
    return [float_steps.matmul(product_of(step, binding, a, operand_of(binding, step.y)), binding.kernels)]
