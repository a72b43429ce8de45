"""Views of tensors: parts of them, under other shapes; and what makes one view from another."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np
from numpy.typing import NDArray

from intact import numerics
from intact.engine.cpu.binding import Binding, dense_strides
from intact.engine.steps import Codes, Shape
from intact.kernels import Bytes, NativeStep, View, moves, pointwise
from intact.numerics import MULTIPLIER_LIMIT


def zero_of(codes: Codes) -> int:
    """The byte that means 0.0."""
    return codes.zero_point + codes.offset


def grid_of(codes: Codes, low: float | None = None, high: float | None = None) -> Bytes:
    """The bytes of a grid, within bounds in codes besides."""
    lowest = codes.low if low is None else max(codes.low, int(low))
    highest = codes.high if high is None else min(codes.high, int(high))
    return Bytes(zero_of(codes), lowest + codes.offset, highest + codes.offset)


def move(binding: Binding, x_name: str, x: View, y_name: str, y: View) -> list[NativeStep]:
    """Elements of one view into another of the same shape, on the grid of the second."""
    from_codes, to_codes = binding.grid(x_name), binding.grid(y_name)
    if from_codes is None or to_codes is None or _same_bytes(from_codes, to_codes):
        return [] if binding.same_memory(x, y) else [moves.copy(x, y, binding.kernels)]
    zero, grid, table = zero_of(from_codes), grid_of(to_codes), _rescale_table(from_codes, to_codes)
    with np.errstate(over="ignore"):
        nearest = np.float32(from_codes.scale / to_codes.scale)
    for multiplier in (
        nearest,
        np.nextafter(nearest, np.float32(0)),
        np.nextafter(nearest, np.float32(np.inf)),
    ):
        if not multiplier < MULTIPLIER_LIMIT:
            continue
        steps = np.rint((np.arange(256) - zero).astype(np.float32) * multiplier) + grid.zero
        if (np.clip(steps, grid.low, grid.high) == table).all():
            return [pointwise.rescale(x, y, zero, float(multiplier), grid, binding.kernels)]
    return [pointwise.lookup(x, binding.hold(table), y, binding.kernels)]


def _rescale_table(codes: Codes, y: Codes) -> NDArray[np.uint8]:
    """The byte of y for each byte (N28)."""
    bytes_of = numerics.rescale(np.arange(256) - codes.offset, codes.affine, y.affine, y.spec) + y.offset
    return np.clip(bytes_of, *y.byte_range).astype(np.uint8)


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
    """Whether elements lie row by row, without gaps."""
    strides = dense_strides(x.sizes, x.itemsize)
    return all(size == 1 or a == b for size, a, b in zip(x.sizes, x.strides, strides, strict=True))
