"""Softmax."""

from __future__ import annotations

from intact.engine.cpu.binding import Binding, binds
from intact.engine.cpu.steps.base.operands import operand_of, spread, transpose_operand
from intact.engine.steps import Softmax
from intact.kernels import NativeStep, float_steps


@binds(Softmax)
def bind_softmax(step: Softmax, binding: Binding) -> list[NativeStep]:
    """Softmax along any axis: it becomes the last one of the views."""
    shape = binding.shape(step.y)
    axis = step.axis % len(shape)
    order = [*(i for i in range(len(shape)) if i != axis), axis]
    x, y = (transpose_operand(operand_of(binding, name), order) for name in (step.x, step.y))
    mask = transpose_operand(spread(binding, step.mask, shape), order) if step.mask else None
    return [float_steps.softmax(x, y, step.gain, mask, binding.kernels)]
