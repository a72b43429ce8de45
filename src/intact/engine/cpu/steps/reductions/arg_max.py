"""The place of the largest element along an axis."""

from __future__ import annotations

from intact.engine.cpu.binding import Binding, binds
from intact.engine.steps import ArgMax
from intact.kernels import NativeStep, moves


@binds(ArgMax)
def bind_arg_max(step: ArgMax, binding: Binding) -> list[NativeStep]:
    """The place of the largest element along an axis."""
    x, y = binding.view(step.x), binding.view(step.y)
    return [moves.arg_max(x, y, step.axis, smallest=step.smallest, last=step.last, kernels=binding.kernels)]
