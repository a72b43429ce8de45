"""Sum of two tensors of codes."""

from __future__ import annotations

from intact.engine.cpu.binding import Binding, binds
from intact.engine.cpu.steps.base.views import broadcast, grid_of, zero_of
from intact.engine.steps import Add
from intact.kernels import NativeStep, pointwise


@binds(Add)
def bind_add(step: Add, binding: Binding) -> list[NativeStep]:
    """Sum of two tensors of codes."""
    y, shape = binding.codes(step.y), binding.shape(step.y)
    grid = grid_of(y, step.low, step.high)
    a, b = (broadcast(binding, name, shape) for name in (step.a, step.b))
    from_a, from_b = ((zero_of(c), c.scale) for c in (binding.codes(step.a), binding.codes(step.b)))
    return [pointwise.add(a, b, binding.view(step.y), from_a, from_b, y.scale, grid, binding.kernels)]
