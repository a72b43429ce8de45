"""One number for the elements along an axis, of any type."""

from __future__ import annotations

from intact.engine.cpu.binding import Binding, binds
from intact.engine.steps import Fold
from intact.kernels import NativeStep, moves


@binds(Fold)
def bind_fold(step: Fold, binding: Binding) -> list[NativeStep]:
    """One number for the elements along an axis."""
    return [moves.fold(binding.view(step.x), binding.view(step.y), step.axis, step.function)]
