"""What follows from the sizes of the inputs alone."""

from __future__ import annotations

from intact.engine.cpu.binding import Binding, binds
from intact.engine.steps import ShapeArithmetic
from intact.kernels import NativeStep, moves


@binds(ShapeArithmetic)
def bind_shape_arithmetic(step: ShapeArithmetic, binding: Binding) -> list[NativeStep]:
    """A copy of what these sizes give."""
    return [moves.copy(binding.hold(binding.values[y]), binding.view(y), binding.kernels) for y in step.ys]
