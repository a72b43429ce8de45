"""Elements that indices along an axis choose."""

from __future__ import annotations

from intact.engine.cpu.binding import Binding, binds
from intact.engine.cpu.steps.base.indices import check_constant_index
from intact.engine.steps import GatherElements
from intact.kernels import NativeStep, moves


@binds(GatherElements)
def bind_gather_elements(step: GatherElements, binding: Binding) -> list[NativeStep]:
    """Elements by index; a run that meets an index out of range ends there."""
    x, index = binding.view(step.x), binding.view(step.index)
    check_constant_index(step, binding)
    return [moves.gather_elements(x, index, binding.view(step.y), step.axis)]
