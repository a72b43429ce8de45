"""Codes of one grid as codes of another."""

from __future__ import annotations

from intact.engine.cpu.binding import Binding, binds
from intact.engine.cpu.steps.base.views import move
from intact.engine.steps import Rescale
from intact.kernels import NativeStep


@binds(Rescale)
def bind_rescale(step: Rescale, binding: Binding) -> list[NativeStep]:
    """Codes of one grid to codes of another."""
    return move(binding, step.x, binding.view(step.x), step.y, binding.view(step.y))
