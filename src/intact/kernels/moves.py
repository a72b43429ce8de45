"""Makers of native steps that move elements, fill memory, or work on elements of any type.

Each returns a step for `Program.add`. Codes are bytes; every zero point and bound here is one of bytes.
Images are views (n, h, w, c) whose channels are neighbours. Makers raise ValueError for what could not be run
safely.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from intact.kernels import _native
from intact.kernels.program import NativeStep, View
from intact.kernels.registry import Kernels, kernels_or_chosen


def halo(image: View, value: int) -> NativeStep:
    """Fill the halo of an image."""
    return _native.step_halo(image, value)


def pick(x: View, index: View, y: View) -> NativeStep:
    """``y[i, ...] = x[index[i], ...]``, whose rows lie side by side.

    Args:
        x, y: Of one dtype.
        index: int32 or int64, of any rank; negative ones count from the end. What is out of range fails.
    """
    return _native.step_pick(x, index, y)


def elementwise(operation: str, xs: Sequence[View], y: View) -> NativeStep:
    """``y = operation(*xs)``, one of `numerics.ELEMENTWISE` (N53); the views have the sizes of y."""
    return _native.step_elementwise(operation, list(xs), y)


def cum_sum(x: View, y: View, axis: int, *, exclusive: bool = False, reverse: bool = False) -> NativeStep:
    """Running sums along an axis (N54); x and y have one shape and one dtype."""
    return _native.step_cum_sum(x, y, axis, exclusive, reverse)


def arg_max(x: View, y: View, axis: int, *, smallest: bool = False, last: bool = False) -> NativeStep:
    """Places of the largest elements along an axis (N54), which has size 1 in y, int64."""
    return _native.step_arg_max(x, y, axis, smallest, last)


def gather_elements(x: View, index: View, y: View, axis: int) -> NativeStep:
    """``y[i, j, ...] = x[index[i, j, ...], j, ...]``, where axis is 0.

    Args:
        x, y: Of one dtype.
        index: int32 or int64, of the sizes of y; negative ones count from the end. Out of range they fail.
        axis: Along which they count.
    """
    return _native.step_gather_elements(x, index, y, axis)


def interpolate(
    x: View, y: View, axis: int, places: NDArray[np.int64], weights: NDArray[np.float32]
) -> NativeStep:
    """Sums of elements of x times weights, along an axis (N57).

    Args:
        x, y: float32, of one size along all other axes.
        axis: Along which.
        places: int64 [elements of y along the axis, terms of each]; of elements of x.
        weights: float32, of the same shape.
    """
    terms = places.shape[1]
    return _native.step_interpolate(x, y, axis, places.ravel().tolist(), weights.ravel().tolist(), terms)


def fill(y: View, value: int) -> NativeStep:
    """Set every byte of y, without its halo."""
    return _native.step_fill(y, value)


def copy(x: View, y: View, kernels: Kernels | None = None) -> NativeStep:
    """Elements as they are; x and y have one dtype and one shape."""
    return _native.step_copy(kernels_or_chosen(kernels)["transpose"], x, y)


def gather(x: View, y: View, indices: Sequence[Sequence[int]]) -> NativeStep:
    """``y[i, j, ...] = x[indices[0][i], indices[1][j], ...]``; one list for each axis of y."""
    return _native.step_gather(x, y, [list(map(int, axis)) for axis in indices])
