"""Functions of one float or two, sums along axes, and what works on elements of any type."""

from __future__ import annotations

from intact.engine.cpu.binding import Binding, binds
from intact.engine.cpu.steps.operands import operand_of, spread, turned
from intact.engine.cpu.steps.views import broadcast
from intact.engine.steps import Binary, Clip, Elementwise, FakeQuantize, Function, Reduce
from intact.kernels import float_steps, moves
from intact.kernels.program import NativeStep, View


@binds(Function)
def bind_function(step: Function, binding: Binding) -> list[NativeStep]:
    """A function of one real."""
    x, y = operand_of(binding, step.x), operand_of(binding, step.y)
    return [float_steps.function(x, y, step.function, binding.kernels)]


@binds(Clip)
def bind_clip(step: Clip, binding: Binding) -> list[NativeStep]:
    """Bounds of floats."""
    low = float("-inf") if step.low is None else step.low
    high = float("inf") if step.high is None else step.high
    return [
        float_steps.clip(operand_of(binding, step.x), operand_of(binding, step.y), low, high, binding.kernels)
    ]


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


@binds(Binary)
def bind_binary(step: Binary, binding: Binding) -> list[NativeStep]:
    """A function of two floats, with broadcasting."""
    a, b, y = (spread(binding, name, binding.shape(step.y)) for name in (step.a, step.b, step.y))
    return [float_steps.binary(a, b, y, step.function, binding.kernels)]


@binds(Elementwise)
def bind_elementwise(step: Elementwise, binding: Binding) -> list[NativeStep]:
    """An operation on elements of any type, with broadcasting."""
    shape = binding.shape(step.y)
    xs = [broadcast(binding, name, shape) for name in step.xs]
    return [moves.elementwise(step.operation, xs, binding.view(step.y), binding.kernels)]


@binds(Reduce)
def bind_reduce(step: Reduce, binding: Binding) -> list[NativeStep]:
    """One number for the elements along axes: they become the last ones of x, and y has the others."""
    x, y = operand_of(binding, step.x), operand_of(binding, step.y)
    kept = [axis for axis in range(len(x.view.sizes)) if axis not in step.axes]
    inner = sorted(step.axes)
    written = turned(y, kept) if step.keepdims else y
    return [float_steps.reduce(turned(x, [*kept, *inner]), written, step.function, binding.kernels)]
