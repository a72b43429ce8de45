"""Reduction of shapes and axes to the one view of the native loops: [groups, outer, channels, inner]."""

from __future__ import annotations

from itertools import groupby
from math import prod
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from intact.numerics import expand, granule_shape, normalize_axes
from intact.spec import QuantSpec

Layout = tuple[int, int, int, int]
Shape = tuple[int, ...]
Scalar = TypeVar("Scalar", bound=np.generic)


def layout_of(shape: Shape, kept_axes: tuple[bool, ...]) -> Layout | None:
    """Return the view of a dense tensor in which granule (g, c) is one entry of the parameters.

    Args:
        shape: Sizes in memory order.
        kept_axes: Whether each axis has parameters of its own.
    Returns:
        Neighbouring axes of one kind become one; the last four must be kept, reduced, kept, reduced. None if
        there are more, as for kept axes 0, 2 and 4 of six.

    Example:
        >>> layout_of((8, 3, 5, 5), (False, True, False, False))
        (1, 8, 3, 25)
    """
    axes = [(size, keep) for size, keep in zip(shape, kept_axes, strict=True) if size != 1]
    runs = [(keep, prod(size for size, _ in run)) for keep, run in groupby(axes, key=lambda axis: axis[1])]
    slots, slot = [1, 1, 1, 1], 4
    for keep, size in reversed(runs):
        slot -= 1 if keep == (slot - 1 in (0, 2)) else 2
        if slot < 0:
            return None
        slots[slot] = size
    return slots[0], slots[1], slots[2], slots[3]


def memory_order(x: NDArray[Any]) -> tuple[int, ...] | None:
    """Return the order of axes in which `x` is dense; None if it is not dense (a slice, a broadcast)."""
    if x.flags.c_contiguous:
        return tuple(range(x.ndim))
    order = tuple(sorted(range(x.ndim), key=lambda axis: -x.strides[axis]))
    return order if x.transpose(order).flags.c_contiguous else None


class ParameterLayout(NamedTuple):
    """The layout of a tensor, and of its quantization parameters.

    Attributes:
        order: The transpose that makes the tensor dense.
        layout: The view of the transposed tensor.
        shape, spec: Shape and granularity of the tensor before the transpose.
        granules: The shape of parameters that are in the order of the layout already; otherwise None.
        spread: The granules fit no layout, so that every element has its own parameters.
    """

    order: tuple[int, ...]
    layout: Layout
    shape: Shape
    spec: QuantSpec
    granules: Shape | None = None
    spread: bool = False

    def params(self, values: NDArray[Scalar]) -> NDArray[Scalar]:
        """Flatten parameters in the order of the layout.

        Args:
            values: Granule shape, or one number.

        Raises:
            QuantValueError: `values` does not have granule shape.
        """
        if values.shape == self.granules:
            return np.ascontiguousarray(values).reshape(-1)
        if values.size == 1:
            # np.repeat copies bits. A Python float would lose a denormal where the process flushes them.
            return np.repeat(values.reshape(1), self.layout[0] * self.layout[2])
        full = expand(values, self.shape, self.spec)
        if self.spread:
            full = np.broadcast_to(full, self.shape)
        return np.ascontiguousarray(full.transpose(self.order)).reshape(-1)


def plan(x: NDArray[Any], spec: QuantSpec, *, shared: bool) -> ParameterLayout:
    """Choose the layout of `x` that needs the fewest copies.

    Args:
        x: A tensor.
        spec: Its granularity.
        shared: All its parameters are one number.

    Raises:
        QuantValueError: An axis of `spec` is out of range.
    """
    axes = normalize_axes(x.shape, spec) if spec.axis is not None else ()
    natural = tuple(range(x.ndim))
    order = memory_order(x) or natural
    if shared:
        return ParameterLayout(order, (1, 1, 1, x.size), x.shape, spec)
    if spec.block_size is None:
        kept_axes = tuple(axis in axes for axis in order)
        layout = layout_of(tuple(x.shape[axis] for axis in order), kept_axes)
        granules = tuple(x.shape[axis] for axis in axes) if order == natural else None
    else:
        order = natural
        layout = _block_layout(x.shape, axes[0], spec.block_size)
        granules = granule_shape(x.shape, spec)
    if layout is None:
        return ParameterLayout(order, (1, 1, x.size, 1), x.shape, spec, spread=True)
    return ParameterLayout(order, layout, x.shape, spec, granules)


def _block_layout(shape: Shape, axis: int, block_size: int) -> Layout | None:
    size = min(block_size, shape[axis])
    if shape[axis] % size:
        return None  # a shorter last block
    cut = (*shape[:axis], shape[axis] // size, size, *shape[axis + 1 :])
    return layout_of(cut, tuple(a != axis + 1 for a in range(len(cut))))
