"""Rows that tuples of indices choose."""

from __future__ import annotations

from intact.engine.cpu.binding import Binding, binds
from intact.engine.cpu.steps.base.indices import check_constant_index
from intact.engine.steps import GatherRows
from intact.kernels import NativeStep, moves


@binds(GatherRows)
def bind_gather_rows(step: GatherRows, binding: Binding) -> list[NativeStep]:
    """Rows by tuples of indices; a run that meets one out of range ends there."""
    check_constant_index(step, binding)
    x, index, y = (binding.view(name) for name in (step.x, step.index, step.y))
    return [moves.gather_rows(x, index, y, step.sizes, step.parts(x.sizes))]
