"""A function of two floats."""

from __future__ import annotations

from intact.engine.cpu.binding import Binding, binds
from intact.engine.cpu.steps.base.operands import spread
from intact.engine.steps import Binary
from intact.kernels import NativeStep, float_steps


@binds(Binary)
def bind_binary(step: Binary, binding: Binding) -> list[NativeStep]:
    """A function of two floats, with broadcasting."""
    a, b, y = (spread(binding, name, binding.shape(step.y)) for name in (step.a, step.b, step.y))
    return [float_steps.binary(a, b, y, step.function, binding.kernels)]
