"""Sums of floats in one fixed order, and what rests on them: means, softmax and layer_norm. NORMATIVE."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from intact.errors import QuantValueError
from intact.numerics.floats.functions import LOG2_E, NORMAL_END, exp2
from intact.numerics.grids.affine import to_float32

Reals = NDArray[np.float32]

LANES = 16


def lane_sum(x: ArrayLike) -> Reals:
    """Sum over the last axis in an order that no register width changes. NORMATIVE.

    Sixteen lanes begin at +0; lane i adds elements i, i + 16, i + 32, ... (+0 behind the end). Then lanes i
    and i + 8 are added, i and i + 4, i and i + 2, and the last two.

    Args:
        x: Reals [..., n].
    Returns:
        float32 [...].
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
    """`lane_sum` of the elements along `axes`, taken in row-major order. NORMATIVE.

    Args:
        x: Reals.
        axes: Axes of `x`, from 0 or -1, in any order.
        keepdims: They stay, with size 1.
    Returns:
        float32.
    Raises:
        QuantValueError: There is no such axis, or one is given twice.
    """
    x = to_float32(x)
    inner = _axes(x, axes)
    outer = [axis for axis in range(x.ndim) if axis not in inner]
    kept = tuple(x.shape[axis] for axis in outer)
    rows = x.transpose(outer + list(inner)).reshape(*kept, math.prod(x.shape[axis] for axis in inner))
    sums = lane_sum(rows)
    return sums.reshape([1 if axis in inner else n for axis, n in enumerate(x.shape)]) if keepdims else sums


def mean_over(x: ArrayLike, axes: Sequence[int], keepdims: bool = False) -> Reals:
    """``fl32(sum_over(x) / n)``, a true division by the number of elements. NORMATIVE.

    Args and errors are those of `sum_over`.
    """
    x = to_float32(x)
    sums = sum_over(x, axes, keepdims)
    with np.errstate(all="ignore"):
        return np.asarray(sums / np.float32(math.prod(x.shape[axis] for axis in axes)))


def max_over(x: ArrayLike, axes: Sequence[int], keepdims: bool = False) -> Reals:
    """The largest, plus 0: never -0. A NaN among them gives a NaN, no element minus infinity. NORMATIVE.

    Args and errors are those of `sum_over`.
    """
    return _extreme(np.maximum, -np.inf, x, axes, keepdims)


def min_over(x: ArrayLike, axes: Sequence[int], keepdims: bool = False) -> Reals:
    """The smallest, plus 0: never -0. A NaN among them gives a NaN, no element infinity. NORMATIVE.

    Args and errors are those of `sum_over`.
    """
    return _extreme(np.minimum, np.inf, x, axes, keepdims)


def _extreme(function: np.ufunc, nothing: float, x: ArrayLike, axes: Sequence[int], keepdims: bool) -> Reals:
    x = to_float32(x)
    with np.errstate(all="ignore"):
        found = function.reduce(x, _axes(x, axes), keepdims=keepdims, initial=np.float32(nothing))
        return np.asarray(found + np.float32(0))


REDUCTIONS: dict[str, Callable[[ArrayLike, Sequence[int], bool], Reals]] = {
    "max": max_over, "mean": mean_over, "min": min_over, "sum": sum_over,
}  # fmt: skip
"""The functions of the elements along some axes that a step can name."""


def _axes(x: Reals, axes: Sequence[int]) -> tuple[int, ...]:
    inner = tuple(sorted(_axis(x, axis) for axis in axes))
    if len(set(inner)) < len(inner):
        raise QuantValueError("axes", str(tuple(axes)), "each axis once", "drop what is given twice")
    return inner


def softmax(x: ArrayLike, axis: int = -1, gain: float = 1.0, mask: ArrayLike | None = None) -> Reals:
    """``e * fl32(1 / sum(e))``, ``e = 2^((v - max(v)) * log2(e))``, ``v = x * gain (+ mask)``. NORMATIVE.

    The sum is `lane_sum`. Below ``v - max(v) = -87``, where float32 has no normal numbers left, e is 0. A row
    without a finite maximum, or with a NaN, is all NaN.

    Args:
        x: Reals.
        axis: The axis along which the results add up to 1.
        gain: Rounded to float32.
        mask: Reals that broadcast to the shape of `x`, added behind the product.
    Returns:
        float32, shape of `x`.
    Raises:
        QuantValueError: `mask` does not broadcast to the shape of `x`, or there is no such axis.
    """
    x = to_float32(x)
    _axis(x, axis)
    with np.errstate(all="ignore"):
        v = x * np.float32(gain)
        if mask is not None:
            v = v + _broadcast(mask, x.shape)
        v = np.moveaxis(v, axis, -1)
        if v.shape[-1] == 0:
            return np.asarray(x)
        below = v - v.max(axis=-1, keepdims=True)
        e = np.where(below < -NORMAL_END, np.float32(0), exp2(below * LOG2_E))
        y = e * (np.float32(1) / lane_sum(e))[..., None]
    return np.ascontiguousarray(np.moveaxis(y, -1, axis))


def layer_norm(
    x: ArrayLike,
    weight: ArrayLike | None = None,
    bias: ArrayLike | None = None,
    epsilon: float = 1e-5,
    residual: ArrayLike | None = None,
) -> Reals:
    """Normalization over the last axis, of x (+ residual). NORMATIVE.

    ``v = x + residual``, ``mean = lane_sum(v) / n``, ``d = v - mean``, ``variance = lane_sum(d * d) / n``,
    ``r = 1 / sqrt(variance + epsilon)``, ``y = d * r * weight + bias``; both divisions by n and the square
    root are true ones.

    Args:
        x: Reals [..., n].
        weight, bias: Reals [n].
        epsilon: Rounded to float32.
        residual: Reals, shape of `x`.
    Returns:
        float32, shape of `x`.
    Raises:
        QuantValueError: Shapes do not fit.
    """
    v = to_float32(x)
    if v.ndim == 0:
        raise QuantValueError("x", "a number", "a last axis to normalize over", "reshape it to [1]")
    with np.errstate(all="ignore"):
        if residual is not None:
            v = v + _of_shape(residual, v.shape, "residual")
        n = np.float32(v.shape[-1])
        d = v - (lane_sum(v) / n)[..., None]
        variance = lane_sum(d * d) / n
        y = d * (np.float32(1) / np.sqrt(variance + np.float32(epsilon)))[..., None]
        if weight is not None:
            y = y * _of_shape(weight, v.shape[-1:], "weight")
        if bias is not None:
            y = y + _of_shape(bias, v.shape[-1:], "bias")
    return np.asarray(y)


def _axis(x: Reals, axis: int) -> int:
    """The axis, counted from 0."""
    if not -x.ndim <= axis < x.ndim:
        raise QuantValueError(
            "axis", str(axis), f"an axis of a tensor of rank {x.ndim}", "count from 0 or -1"
        )
    return axis % x.ndim


def _of_shape(values: ArrayLike, shape: tuple[int, ...], name: str) -> Reals:
    values = to_float32(values)
    if values.shape != shape:
        raise QuantValueError(name, f"shape {values.shape}", f"shape {shape}", "pass one value for each")
    return values


def _broadcast(mask: ArrayLike, shape: tuple[int, ...]) -> Reals:
    mask = to_float32(mask)
    try:
        return np.broadcast_to(mask, shape)
    except ValueError:
        raise QuantValueError(
            "mask", f"shape {mask.shape}", f"one that broadcasts to {shape}", "add missing axes of size 1"
        ) from None
