"""Axes in another order."""

from __future__ import annotations

from intact.engine.cpu.binding import Binding, binds
from intact.engine.cpu.steps.base.views import move
from intact.engine.steps import Transpose
from intact.kernels import NativeStep


@binds(Transpose)
def bind_transpose(step: Transpose, binding: Binding) -> list[NativeStep]:
    """Axes in another order. Nothing where y lies as x does."""
    x = binding.view(step.x)
    sizes, strides = ([axes[i] for i in step.perm] for axes in (x.sizes, x.strides))
    return move(binding, step.x, x.part(x.offset, sizes, strides), step.y, binding.view(step.y))
