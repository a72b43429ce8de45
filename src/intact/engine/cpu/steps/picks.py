"""What reads or writes where numbers say: the largest elements, scattered ones, rows by tuples, grids."""

from __future__ import annotations

from intact.engine.cpu.binding import Binding, binds
from intact.engine.cpu.steps.views import move
from intact.engine.steps import GatherRows, GridSample, ScatterElements, ScatterRows, TopK
from intact.kernels import moves
from intact.kernels.program import NativeStep


@binds(TopK)
def bind_top_k(step: TopK, binding: Binding) -> list[NativeStep]:
    """The largest elements along an axis."""
    x, y, places = (binding.view(name) for name in (step.x, step.y, step.places))
    return [moves.top_k(x, y, places, step.axis, largest=step.largest)]


@binds(ScatterElements)
@binds(ScatterRows)
def bind_scatter(step: ScatterElements | ScatterRows, binding: Binding) -> list[NativeStep]:
    """x as it is, then the updates; a run that meets an index out of range ends there."""
    _check(step, binding)
    index, updates, y = (binding.view(name) for name in (step.index, step.updates, step.y))
    if isinstance(step, ScatterElements):
        scattered = moves.scatter_elements(index, updates, y, step.axis, reduction=step.reduction)
    else:
        scattered = moves.scatter_rows(index, updates, y, step.sizes, reduction=step.reduction)
    return [*move(binding, step.x, binding.view(step.x), step.y, y), scattered]


@binds(GatherRows)
def bind_gather_rows(step: GatherRows, binding: Binding) -> list[NativeStep]:
    """Rows by tuples of indices; a run that meets one out of range ends there."""
    _check(step, binding)
    x, index, y = (binding.view(name) for name in (step.x, step.index, step.y))
    return [moves.gather_rows(x, index, y, step.sizes, step.parts(x.sizes))]


@binds(GridSample)
def bind_grid_sample(step: GridSample, binding: Binding) -> list[NativeStep]:
    """Images at places."""
    x, grid, y = (binding.view(name) for name in (step.x, step.grid, step.y))
    sampled = moves.grid_sample(
        x, grid, y, nearest=step.nearest, padding=step.padding, align_corners=step.align_corners
    )
    return [sampled]


def _check(step: ScatterElements | ScatterRows | GatherRows, binding: Binding) -> None:
    """A constant index is known before any run."""
    if step.index in binding.plan.constants:
        shape = binding.view(step.x).sizes
        step.check_index(binding.array(step.index), tuple(shape), f"constant '{step.index}'")
