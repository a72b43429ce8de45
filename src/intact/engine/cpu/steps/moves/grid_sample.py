"""Images at places that a grid gives."""

from __future__ import annotations

from intact.engine.cpu.binding import Binding, binds
from intact.engine.steps import GridSample
from intact.kernels import NativeStep, moves


@binds(GridSample)
def bind_grid_sample(step: GridSample, binding: Binding) -> list[NativeStep]:
    """Images at places."""
    x, grid, y = (binding.view(name) for name in (step.x, step.grid, step.y))
    sampled = moves.grid_sample(
        x, grid, y, nearest=step.nearest, padding=step.padding, align_corners=step.align_corners
    )
    return [sampled]
