"""Floats on a grid."""

from __future__ import annotations

from intact.engine.cpu.binding import Binding, binds
from intact.engine.cpu.steps.base.operands import operand_of
from intact.engine.steps import FakeQuantize
from intact.kernels import NativeStep, View, float_steps, moves


@binds(FakeQuantize)
def bind_fake_quantize(step: FakeQuantize, binding: Binding) -> list[NativeStep]:
    """Floats on a grid; where they lie in another order they are moved first, by what transposes in tiles."""
    x, y = operand_of(binding, step.x), operand_of(binding, step.y)
    moved = []
    if binding.grid(step.x) is binding.grid(step.y) is None and _innermost(x.view) != _innermost(y.view):
        moved, x = [moves.copy(x.view, y.view, binding.kernels)], y
    low, high = (end - step.zero_point for end in step.ends)
    return [*moved, float_steps.fake_quantize(x, y, step.scale, low, high, binding.kernels)]


def _innermost(view: View) -> int:
    """The axis along which neighbours lie."""
    axes = [axis for axis, size in enumerate(view.sizes) if size > 1]
    return min(axes, key=lambda axis: view.strides[axis], default=0)
