"""What indices along an axis choose."""

from __future__ import annotations

from intact.engine.cpu.binding import Binding, binds
from intact.engine.cpu.steps.base.indices import check_constant_index
from intact.engine.steps import Gather
from intact.kernels import NativeStep, moves


@binds(Gather)
def bind_gather(step: Gather, binding: Binding) -> list[NativeStep]:
    """Elements of a tensor or of a constant; a run that meets an index out of range ends there."""
    x, index = binding.view(step.x), binding.view(step.index)
    check_constant_index(step, binding)
    return [moves.gather(x, index, binding.view(step.y), step.axis)]
