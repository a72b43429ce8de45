"""Tensors side by side."""

from __future__ import annotations

from intact.engine.cpu.binding import Binding, binds
from intact.engine.cpu.steps.base.views import move, part_of
from intact.engine.steps import Concat
from intact.kernels import NativeStep


@binds(Concat)
def bind_concat(step: Concat, binding: Binding) -> list[NativeStep]:
    """Every input goes into its slice of y."""
    y, axis = binding.view(step.y), step.axis % len(binding.shape(step.y))
    steps: list[NativeStep] = []
    start = 0
    for name in step.xs:
        x = binding.view(name)
        shape = x.sizes
        part = part_of(y, {axis: start}, shape)
        steps += move(binding, name, x, step.y, part)
        start += shape[axis]
    return steps
