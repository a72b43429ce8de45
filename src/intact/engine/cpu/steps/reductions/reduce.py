"""One number for the floats along some axes."""

from __future__ import annotations

from intact.engine.cpu.binding import Binding, binds
from intact.engine.cpu.steps.base.operands import operand_of, transpose_operand
from intact.engine.steps import Reduce
from intact.kernels import NativeStep, float_steps


@binds(Reduce)
def bind_reduce(step: Reduce, binding: Binding) -> list[NativeStep]:
    """One number for the elements along axes: they become the last ones of x, and y has the others."""
    x, y = operand_of(binding, step.x), operand_of(binding, step.y)
    kept_axes = [axis for axis in range(len(x.view.sizes)) if axis not in step.axes]
    inner = sorted(step.axes)
    written = transpose_operand(y, kept_axes) if step.keepdims else y
    return [
        float_steps.reduce(
            transpose_operand(x, [*kept_axes, *inner]), written, step.function, binding.kernels
        )
    ]
