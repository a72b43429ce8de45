"""The same elements again and again along axes of size 1."""

from __future__ import annotations

from intact.engine.cpu.binding import Binding, binds
from intact.engine.cpu.steps.base.views import move
from intact.engine.steps import Expand
from intact.kernels import NativeStep


@binds(Expand)
def bind_expand(step: Expand, binding: Binding) -> list[NativeStep]:
    """A copy that reads axes of size 1 without going along them."""
    x, y = binding.view(step.x), binding.view(step.y)
    more = len(y.sizes) - len(x.sizes)
    strides = [0] * more + [0 if size == 1 else n for size, n in zip(x.sizes, x.strides, strict=True)]
    return move(binding, step.x, x.part(x.offset, y.sizes, strides), step.y, y)
