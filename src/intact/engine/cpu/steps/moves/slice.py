"""Every so many elements along each axis."""

from __future__ import annotations

from intact.engine.cpu.binding import Binding, binds
from intact.engine.cpu.steps.base.views import move, part_of
from intact.engine.steps import Slice
from intact.kernels import NativeStep


@binds(Slice)
def bind_slice(step: Slice, binding: Binding) -> list[NativeStep]:
    """Every so many elements along each axis."""
    shape = binding.shape(step.y)
    part = part_of(binding.view(step.x), dict(enumerate(step.starts)), shape, step.steps)
    return move(binding, step.x, part, step.y, binding.view(step.y))
