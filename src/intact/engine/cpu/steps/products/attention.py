"""Scores, softmax and values in one."""

from __future__ import annotations

from intact.engine.cpu.binding import Binding, binds, dense_view, dtype_of
from intact.engine.cpu.fuse import Attention
from intact.engine.cpu.steps.base.operands import as_operand, operand_of, spread
from intact.engine.cpu.steps.base.products import matrices_under, product_of
from intact.kernels import NativeStep, float_steps


@binds(Attention)
def bind_attention(step: Attention, binding: Binding) -> list[NativeStep]:
    """Scores, softmax and values in one."""
    shape = binding.shape(step.scores.y)
    score_operand, weights = (as_operand(dense_view(0, 0, dtype_of(t), shape), t) for t in step.middle)
    a = spread(binding, step.a, matrices_under(binding, step.a, shape))
    scores = product_of(step.scores, binding, a, score_operand)
    product = product_of(step.product, binding, weights, operand_of(binding, step.y))
    mask = spread(binding, step.mask, shape) if step.mask else None
    return [
        float_steps.attention(scores, product, gain=step.softmax.gain, mask=mask, kernels=binding.kernels)
    ]
