"""Bounds of floats."""

from __future__ import annotations

from intact.engine.cpu.binding import Binding, binds
from intact.engine.cpu.steps.base.operands import operand_of
from intact.engine.steps import Clip
from intact.kernels import NativeStep, float_steps


@binds(Clip)
def bind_clip(step: Clip, binding: Binding) -> list[NativeStep]:
    """Bounds of floats."""
    low = float("-inf") if step.low is None else step.low
    high = float("inf") if step.high is None else step.high
    return [
        float_steps.clip(operand_of(binding, step.x), operand_of(binding, step.y), low, high, binding.kernels)
    ]
