"""Values between elements, along an axis."""

from __future__ import annotations

from intact.engine.cpu.binding import Binding, binds
from intact.engine.steps import Interpolate
from intact.engine.steps.base.indices import check_rows
from intact.kernels import NativeStep, moves


@binds(Interpolate)
def bind_interpolate(step: Interpolate, binding: Binding) -> list[NativeStep]:
    """Sums of weighted elements along an axis."""
    x, places = binding.view(step.x), binding.array(step.places)
    check_rows(places, x.sizes[step.axis], f"constant '{step.places}'")
    places = places % max(x.sizes[step.axis], 1)
    return [moves.interpolate(x, binding.view(step.y), step.axis, places, binding.array(step.weights))]
