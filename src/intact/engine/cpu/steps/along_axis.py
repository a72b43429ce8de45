"""Folds, running sums, places of the largest elements, elements by index, and values between elements."""

from __future__ import annotations

from intact.engine.cpu.binding import Binding, binds
from intact.engine.steps import ArgMax, CumSum, Fold, GatherElements, Interpolate
from intact.engine.steps.base.indices import check_rows
from intact.kernels import moves
from intact.kernels.program import NativeStep


@binds(Fold)
def bind_fold(step: Fold, binding: Binding) -> list[NativeStep]:
    """One number for the elements along an axis."""
    return [moves.fold(binding.view(step.x), binding.view(step.y), step.axis, step.function)]


@binds(CumSum)
def bind_cum_sum(step: CumSum, binding: Binding) -> list[NativeStep]:
    """Running sums along an axis."""
    x, y = binding.view(step.x), binding.view(step.y)
    return [moves.cum_sum(x, y, step.axis, exclusive=step.exclusive, reverse=step.reverse)]


@binds(ArgMax)
def bind_arg_max(step: ArgMax, binding: Binding) -> list[NativeStep]:
    """The place of the largest element along an axis."""
    x, y = binding.view(step.x), binding.view(step.y)
    return [moves.arg_max(x, y, step.axis, smallest=step.smallest, last=step.last, kernels=binding.kernels)]


@binds(GatherElements)
def bind_gather_elements(step: GatherElements, binding: Binding) -> list[NativeStep]:
    """Elements by index; a run that meets an index out of range ends there."""
    x, index = binding.view(step.x), binding.view(step.index)
    if step.index in binding.plan.constants:
        check_rows(binding.array(step.index), x.sizes[step.axis], f"constant '{step.index}'")
    return [moves.gather_elements(x, index, binding.view(step.y), step.axis)]


@binds(Interpolate)
def bind_interpolate(step: Interpolate, binding: Binding) -> list[NativeStep]:
    """Sums of weighted elements along an axis."""
    x, places = binding.view(step.x), binding.array(step.places)
    check_rows(places, x.sizes[step.axis], f"constant '{step.places}'")
    places = places % max(x.sizes[step.axis], 1)
    return [moves.interpolate(x, binding.view(step.y), step.axis, places, binding.array(step.weights))]
