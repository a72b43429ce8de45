"""Elements written where indices say."""

from __future__ import annotations

from intact.engine.cpu.binding import Binding, binds
from intact.engine.cpu.steps.base.indices import check_constant_index
from intact.engine.cpu.steps.base.views import move
from intact.engine.steps import ScatterElements
from intact.kernels import NativeStep, moves


@binds(ScatterElements)
def bind_scatter_elements(step: ScatterElements, binding: Binding) -> list[NativeStep]:
    """x as it is, then the updates; a run that meets an index out of range ends there."""
    check_constant_index(step, binding)
    index, updates, y = (binding.view(name) for name in (step.index, step.updates, step.y))
    scattered = moves.scatter_elements(index, updates, y, step.axis, reduction=step.reduction)
    return [*move(binding, step.x, binding.view(step.x), step.y, y), scattered]
