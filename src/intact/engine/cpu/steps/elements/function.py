"""A function of one real."""

from __future__ import annotations

from intact.engine.cpu.binding import Binding, binds
from intact.engine.cpu.steps.base.operands import operand_of
from intact.engine.steps import Function
from intact.kernels import NativeStep, float_steps


@binds(Function)
def bind_function(step: Function, binding: Binding) -> list[NativeStep]:
    """A function of one real."""
    x, y = operand_of(binding, step.x), operand_of(binding, step.y)
    return [float_steps.function(x, y, step.function, binding.kernels)]
