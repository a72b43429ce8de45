"""The largest elements along an axis."""

from __future__ import annotations

from intact.engine.cpu.binding import Binding, binds
from intact.engine.steps import TopK
from intact.kernels import NativeStep, moves


@binds(TopK)
def bind_top_k(step: TopK, binding: Binding) -> list[NativeStep]:
    """The largest elements along an axis."""
    x, y, places = (binding.view(name) for name in (step.x, step.y, step.places))
    return [moves.top_k(x, y, places, step.axis, largest=step.largest)]
