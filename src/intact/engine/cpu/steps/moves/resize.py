"""Nearest neighbours, and other choices of whole rows and columns."""

from __future__ import annotations

from intact.engine.cpu.binding import Binding, binds
from intact.engine.cpu.steps.base.views import regrid
from intact.engine.steps import Resize
from intact.kernels import NativeStep, moves


@binds(Resize)
def bind_resize(step: Resize, binding: Binding) -> list[NativeStep]:
    """Nearest neighbour."""
    indices = [range(size) for size in binding.shape(step.y)]
    chosen = dict(zip(step.axes, step.indices, strict=True))
    lists = [binding.array(chosen[i]).tolist() if i in chosen else list(r) for i, r in enumerate(indices)]
    resized = moves.resize(binding.view(step.x), binding.view(step.y), lists)
    return [resized, *regrid(binding, step.x, step.y)]
