"""Running sums along an axis."""

from __future__ import annotations

from intact.engine.cpu.binding import Binding, binds
from intact.engine.steps import CumSum
from intact.kernels import NativeStep, moves


@binds(CumSum)
def bind_cum_sum(step: CumSum, binding: Binding) -> list[NativeStep]:
    """Running sums along an axis."""
    x, y = binding.view(step.x), binding.view(step.y)
    return [moves.cum_sum(x, y, step.axis, exclusive=step.exclusive, reverse=step.reverse)]
