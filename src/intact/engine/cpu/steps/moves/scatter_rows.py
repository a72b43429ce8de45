"""Rows written where tuples of indices say."""

from __future__ import annotations

from intact.engine.cpu.binding import Binding, binds
from intact.engine.cpu.steps.base.indices import check_constant_index
from intact.engine.cpu.steps.base.views import move
from intact.engine.steps import ScatterRows
from intact.kernels import NativeStep, moves


@binds(ScatterRows)
def bind_scatter_rows(step: ScatterRows, binding: Binding) -> list[NativeStep]:
    """x as it is, then the updates; a run that meets an index out of range ends there."""
    check_constant_index(step, binding)
    index, updates, y = (binding.view(name) for name in (step.index, step.updates, step.y))
    scattered = moves.scatter_rows(index, updates, y, step.sizes, reduction=step.reduction)
    return [*move(binding, step.x, binding.view(step.x), step.y, y), scattered]
