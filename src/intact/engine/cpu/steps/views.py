"""Views of tensors: parts of them, under other shapes; and what makes one view from another."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from intact.engine.cpu.binding import Binding, dense_strides
from intact.engine.steps import Codes, Shape
from intact.kernels import moves, pointwise
from intact.kernels.epilogue import Bytes
from intact.kernels.program import NativeStep, View
from intact.numerics import ratio


def zero_of(codes: Codes) -> int:
    """The byte that means 0.0."""
    return codes.zero_point + codes.offset


def grid_of(codes: Codes, low: float | None = None, high: float | None = None) -> Bytes:
    """The bytes of a grid, within bounds in codes besides."""
    lowest = codes.low if low is None else max(codes.low, int(low))
    highest = codes.high if high is None else min(codes.high, int(high))
    return Bytes(zero_of(codes), lowest + codes.offset, highest + codes.offset)


def operand(codes: Codes, y: Codes) -> tuple[int, float]:
    return zero_of(codes), float(ratio(codes.scale, y.scale))


def move(binding: Binding, x_name: str, x: View, y_name: str, y: View) -> list[NativeStep]:
    """Elements of one view into another of the same shape, on the grid of the second."""
    from_codes, to_codes = binding.grid(x_name), binding.grid(y_name)
    if from_codes is None or to_codes is None or _same_bytes(from_codes, to_codes):
        return [] if binding.same_memory(x, y) else [moves.copy(x, y, binding.kernels)]
    zero, multiplier = operand(from_codes, to_codes)
    return [pointwise.rescale(x, y, zero, multiplier, grid_of(to_codes), binding.kernels)]


def regrid(binding: Binding, x_name: str, y_name: str) -> list[NativeStep]:
    """What was moved to y as bytes of x becomes bytes of y."""
    y = binding.view(y_name)
    return move(binding, x_name, y, y_name, y)


def _same_bytes(a: Codes, b: Codes) -> bool:
    within = b.low <= a.low and a.high <= b.high
    return (a.scale, a.zero_point, a.offset) == (b.scale, b.zero_point, b.offset) and within


def broadcast(binding: Binding, name: str, shape: Shape) -> View:
    """A tensor under a larger shape."""
    x = binding.view(name)
    new = len(shape) - len(x.sizes)
    strides = [0] * new + [
        0 if size == 1 and size != wanted else stride
        for size, wanted, stride in zip(x.sizes, shape[new:], x.strides, strict=True)
    ]
    return x.part(x.offset, shape, strides)


def part_of(
    x: View, starts: dict[int, int], shape: Sequence[int], steps: Sequence[int] | None = None
) -> View:
    """A part of a view: from `starts` on, `shape` elements, every one of `steps`."""
    offset = x.offset + sum(start * x.strides[axis] for axis, start in starts.items() if prod(shape))
    strides = [stride * step for stride, step in zip(x.strides, steps or [1] * len(shape), strict=True)]
    return x.part(offset, shape, strides)


def dense(x: View, shape: Shape) -> View:
    """Row-major memory under another shape."""
    return x.part(x.offset, shape, dense_strides(shape, x.itemsize))


def is_dense(x: View) -> bool:
    strides = dense_strides(x.sizes, x.itemsize)
    return all(size == 1 or a == b for size, a, b in zip(x.sizes, x.strides, strides, strict=True))
