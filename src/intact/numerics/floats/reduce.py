"""Sums, means and extremes of floats along axes, in one fixed order. NORMATIVE."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from intact.errors import QuantValueError
from intact.numerics.grids.affine import to_float32

Reals = NDArray[np.float32]
LANES = 16


def lane_sum(x: ArrayLike) -> Reals:
    """Sum over the last axis, in one order for every register width. NORMATIVE.

    Sixteen lanes begin at +0; lane i adds elements i, i + 16, i + 32, ... (+0 behind the end). Then lanes i
    and i + 8 are added, i and i + 4, i and i + 2, and the last two.

    Args:
        x: Reals [..., n].
    Returns:
        float32 [...].

    Rule N39.
    """
    x = to_float32(x)
    rest = -x.shape[-1] % LANES
    padded = np.concatenate([x, np.zeros((*x.shape[:-1], rest), np.float32)], axis=-1)
    lanes = np.zeros((*x.shape[:-1], LANES), np.float32)
    with np.errstate(all="ignore"):
        for start in range(0, padded.shape[-1], LANES):
            lanes = lanes + padded[..., start : start + LANES]
        for half in (8, 4, 2, 1):
            lanes = lanes[..., :half] + lanes[..., half:]
    return np.asarray(lanes[..., 0])


def sum_over(x: ArrayLike, axes: Sequence[int], keepdims: bool = False) -> Reals:
    """Sum the elements along `axes` by `lane_sum`, in row-major order. NORMATIVE.

    Args:
        x: Reals.
        axes: Axes of `x`, from 0 or -1, in any order.
        keepdims: Keep the axes, with size 1.
    Returns:
        float32, shape of `x` without `axes`.
    Raises:
        QuantValueError: There is no such axis, or one is given twice.

    Rules N50, N55.
    """
    x = to_float32(x)
    inner = _axes(x, axes)
    outer = [axis for axis in range(x.ndim) if axis not in inner]
    outer_shape = tuple(x.shape[axis] for axis in outer)
    rows = x.transpose(outer + list(inner)).reshape(*outer_shape, math.prod(x.shape[axis] for axis in inner))
    sums = lane_sum(rows)
    return sums.reshape([1 if axis in inner else n for axis, n in enumerate(x.shape)]) if keepdims else sums


def mean_over(x: ArrayLike, axes: Sequence[int], keepdims: bool = False) -> Reals:
    """Compute ``fl32(sum_over(x) / n)``, a true division by the number of elements. NORMATIVE.

    Args:
        x: Floats of any shape; others become float32.
        axes: Whose elements are taken together; negative ones count from the end.
        keepdims: Leave these axes, of size 1.
    Raises:
        QuantValueError: As for `sum_over`.

    Rule N50.
    """
    x = to_float32(x)
    sums = sum_over(x, axes, keepdims)
    with np.errstate(all="ignore"):
        return np.asarray(sums / np.float32(math.prod(x.shape[axis] for axis in axes)))


def max_over(x: ArrayLike, axes: Sequence[int], keepdims: bool = False) -> Reals:
    """Return the largest element, plus 0: never -0. A NaN gives a NaN, no element minus infinity. NORMATIVE.

    Args:
        x: Floats of any shape; others become float32.
        axes: Whose elements are taken together; negative ones count from the end.
        keepdims: Leave these axes, of size 1.
    Raises:
        QuantValueError: As for `sum_over`.

    Rule N50.
    """
    return _extreme(np.maximum, -np.inf, x, axes, keepdims)


def min_over(x: ArrayLike, axes: Sequence[int], keepdims: bool = False) -> Reals:
    """Return the smallest element, plus 0: never -0. A NaN gives a NaN, no element infinity. NORMATIVE.

    Args:
        x: Floats of any shape; others become float32.
        axes: Whose elements are taken together; negative ones count from the end.
        keepdims: Leave these axes, of size 1.
    Raises:
        QuantValueError: As for `sum_over`.

    Rule N50.
    """
    return _extreme(np.minimum, np.inf, x, axes, keepdims)


def _extreme(function: np.ufunc, empty: float, x: ArrayLike, axes: Sequence[int], keepdims: bool) -> Reals:
    x = to_float32(x)
    with np.errstate(all="ignore"):
        extreme = function.reduce(x, _axes(x, axes), keepdims=keepdims, initial=np.float32(empty))
        return np.asarray(extreme + np.float32(0))


REDUCTIONS: dict[str, Callable[[ArrayLike, Sequence[int], bool], Reals]] = {
    "max": max_over, "mean": mean_over, "min": min_over, "sum": sum_over,
}  # fmt: skip
"""The reductions of floats along axes, by the name that a step has for them."""


def _axes(x: Reals, axes: Sequence[int]) -> tuple[int, ...]:
    """Return the axes counted from 0, ascending."""
    inner = tuple(sorted(positive_axis(x, axis) for axis in axes))
    if len(set(inner)) < len(inner):
        raise QuantValueError("axes", str(tuple(axes)), "each axis once", "drop what is given twice")
    return inner


def positive_axis(x: Reals, axis: int) -> int:
    """Return the axis, counted from 0."""
    if not -x.ndim <= axis < x.ndim:
        raise QuantValueError(
            "axis", str(axis), f"an axis of a tensor of rank {x.ndim}", "count from 0 or -1"
        )
    return axis % x.ndim
