"""The gradient of learned step size quantization (LSQ, LSQ+)."""

from __future__ import annotations

from math import prod

import numpy as np
from numpy.typing import ArrayLike, NDArray

from intact.numerics.floats.reduce import lane_sum
from intact.numerics.grids.affine import to_float32
from intact.numerics.grids.granularity import expand, granule_shape, normalize_axes
from intact.spec import QuantSpec

PIECE = 1024
"""Number of elements that `lane_sum` adds in float32 at a time; the results are added in float64."""


def learned_range_grad(
    grad: ArrayLike, x: ArrayLike, y: ArrayLike, low: ArrayLike, high: ArrayLike, spec: QuantSpec
) -> tuple[NDArray, NDArray[np.float64]]:
    """Compute ``grad where low < x < high, else 0``, and three sums for each granule. NORMATIVE.

    Between the ends the first sum takes ``grad * (y - x)``. Elsewhere, and where `x` is a NaN, the second
    takes ``grad * y`` and the third ``grad``. Each term is rounded to float32. A row is a run of neighbours
    in memory that belong to one granule; with one granule it is the whole tensor. `lane_sum` adds `PIECE`
    elements of a row at a time, and the results are added in float64 in the order of memory.

    Args:
        grad: Gradient of the loss by the fake-quantized tensor, shape of `x`.
        x: The tensor before fake-quantization.
        y: The tensor after fake-quantization.
        low, high: Ends of the grid, float32, granule shape (or one number).
        spec: Granularity of `low` and `high`; without blocks.
    Returns:
        Shape and dtype of `grad`; float64 [3, granule shape].
    Source: Esser et al. 2020, equation 3; Bhalgat et al. 2020, equations 4 and 5.

    Rule N18.
    """
    grad, x, y = np.asarray(grad), to_float32(x), to_float32(y)
    g, shape = to_float32(grad), granule_shape(x.shape, spec)
    low, high = expand(to_float32(low), x.shape, spec), expand(to_float32(high), x.shape, spec)
    inside, none = (low < x) & (x < high), np.float32(0)
    with np.errstate(all="ignore"):
        terms = np.where(inside, g * (y - x), none), np.where(inside, none, g * y), np.where(inside, none, g)
    granule = np.arange(prod(shape)).reshape(shape)
    length = _row_length(x.shape, spec) if granule.size > 1 else x.size
    sums = np.zeros((3, granule.size))
    if x.size:
        rows = np.broadcast_to(expand(granule, x.shape, spec), x.shape).reshape(-1, length)[:, 0]
        for total, term in zip(sums, terms, strict=True):
            by_row = term.reshape(-1, length)
            pieces = [lane_sum(by_row[:, i : i + PIECE]) for i in range(0, length, PIECE)]
            with np.errstate(invalid="ignore"):  # of infinities
                np.add.at(total, np.repeat(rows, len(pieces)), np.stack(pieces, axis=1).reshape(-1))
    return np.where(inside, grad, np.zeros((), grad.dtype)), sums.reshape(3, *shape)


def _row_length(shape: tuple[int, ...], spec: QuantSpec) -> int:
    """Return the number of consecutive elements in memory that belong to one granule."""
    own_axes, length = normalize_axes(shape, spec), 1
    for axis in reversed(range(len(shape))):
        if axis in own_axes and shape[axis] != 1:
            break
        length *= shape[axis]
    return length
