"""Operations on elements of any type."""

from __future__ import annotations

from intact.engine.cpu.binding import Binding, binds
from intact.engine.cpu.steps.base.views import broadcast
from intact.engine.steps import Elementwise
from intact.kernels import NativeStep, moves


@binds(Elementwise)
def bind_elementwise(step: Elementwise, binding: Binding) -> list[NativeStep]:
    """An operation on elements of any type, with broadcasting."""
    shape = binding.shape(step.y)
    xs = [broadcast(binding, name, shape) for name in step.xs]
    return [moves.elementwise(step.operation, xs, binding.view(step.y), binding.kernels)]
