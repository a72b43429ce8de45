"""Makers of native steps that move elements, fill memory, or compute on elements of any type.

Each returns a step for `Program.add`. Images are views (n, h, w, c) with dense channels. Makers raise
ValueError for a step that is unsafe to run (csrc/base/check.h).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from intact.kernels import _native
from intact.kernels.program import NativeStep, View
from intact.kernels.registry import Kernels, kernels_or_chosen


def halo(image: View, value: int) -> NativeStep:
    """Set every byte of the halo of an image."""
    return _native.step_halo(image, value)


def gather(x: View, index: View, y: View, axis: int = 0) -> NativeStep:
    """Make the step ``y[i, j, k] = x[i, index[j], k]``.

    i stands for the axes before `axis`, k for those behind it.

    Args:
        x, y: Views of one dtype.
        index: int32 or int64, of any rank. Negative indices count from the end. One out of range fails the
            run.
        axis: The axis of x.
    """
    return _native.step_gather(x, index, y, axis)


def elementwise(operation: str, xs: Sequence[View], y: View, kernels: Kernels | None = None) -> NativeStep:
    """Make the step ``y = operation(*xs)``, one of `numerics.ELEMENTWISE` (N53).

    The views have the sizes of y.
    """
    return _native.step_elementwise(kernels_or_chosen(kernels)["elementwise"], operation, list(xs), y)


def fold(x: View, y: View, axis: int, function: str) -> NativeStep:
    """Make the step that folds all elements along an axis (N60), which has size 1 in y.

    Args:
        x, y: Views of one dtype of `numerics.fold.FOLD_DTYPES`.
        axis: The axis of x.
        function: One of `numerics.fold.FOLDS`.
    """
    return _native.step_fold(x, y, axis, function)


def cum_sum(x: View, y: View, axis: int, *, exclusive: bool = False, reverse: bool = False) -> NativeStep:
    """Make the step for running sums along an axis (N54); x and y have one shape and one dtype."""
    return _native.step_cum_sum(x, y, axis, exclusive, reverse)


def arg_max(
    x: View,
    y: View,
    axis: int,
    *,
    smallest: bool = False,
    last: bool = False,
    kernels: Kernels | None = None,
) -> NativeStep:
    """Make the step for the index of the largest element along an axis (N54), which has size 1 in y,
    int64."""
    return _native.step_arg_max(kernels_or_chosen(kernels)["transpose"], x, y, axis, smallest, last)


def gather_elements(x: View, index: View, y: View, axis: int) -> NativeStep:
    """Make the step ``y[i, j, ...] = x[index[i, j, ...], j, ...]``, where axis is 0.

    Args:
        x, y: Views of one dtype.
        index: int32 or int64, sizes of y. Negative indices count from the end. One out of range fails the
            run.
        axis: The axis of x that the indices count along.
    """
    return _native.step_gather_elements(x, index, y, axis)


def top_k(x: View, y: View, places: View, axis: int, *, largest: bool = True) -> NativeStep:
    """Make the step for the largest (smallest) elements along an axis, as many as y has, and their indices
    (N58)."""
    return _native.step_top_k(x, y, places, axis, largest)


def scatter_elements(
    index: View, updates: View, y: View, axis: int, *, reduction: str = "none"
) -> NativeStep:
    """Make the step ``y[index[i, j, ...], j, ...] = updates[i, j, ...]``, where axis is 0.

    With a reduction both elements are combined (N58).

    Args:
        index: int32 or int64. Negative indices count from the end. One out of range fails the run.
        updates: Sizes of `index`, dtype of y.
        y: The output; other elements stay.
        axis: The axis of y that the indices count along.
        reduction: One of `numerics.scatter_elements.SCATTER_REDUCTIONS`.
    """
    return _native.step_scatter_elements(index, updates, y, axis, reduction)


def scatter_rows(
    index: View, updates: View, y: View, sizes: Sequence[int], *, reduction: str = "none"
) -> NativeStep:
    """Replace rows of y, at tuples of indices (N58).

    Args:
        index: int32 or int64 [n, axes]; as for `scatter_elements`.
        updates: [n, width], dtype of y.
        y: [product of sizes, width], dense rows; other rows stay.
        sizes: The size of each axis that a tuple indexes.
        reduction: One of `numerics.scatter_elements.SCATTER_REDUCTIONS`.
    """
    return _native.step_scatter_rows(index, updates, y, list(sizes), reduction)


def gather_rows(x: View, index: View, y: View, sizes: Sequence[int], parts: int) -> NativeStep:
    """Copy rows of x, at tuples of indices.

    Args:
        x: [parts * product of sizes, width], dense rows.
        index: As for `scatter_rows`; n / parts tuples for each part, in order.
        y: [n, width].
        sizes: The size of each axis that a tuple indexes.
        parts: The number of parts of x.
    """
    return _native.step_gather_rows(x, index, y, list(sizes), parts)


def grid_sample(
    x: View, grid: View, y: View, *, nearest: bool, padding: str, align_corners: bool
) -> NativeStep:
    """Make the step that samples images x [n, c, h, w] at a grid [n, rows, columns, 2], float32 (N59)."""
    return _native.step_grid_sample(x, grid, y, nearest, padding, align_corners)


def interpolate(
    x: View, y: View, axis: int, places: NDArray[np.int64], weights: NDArray[np.float32]
) -> NativeStep:
    """Make the step for weighted sums of elements of x along an axis (N57).

    Args:
        x, y: float32, with the same sizes along all other axes.
        axis: The axis of x.
        places: int64 [size of y along the axis, terms]: indices of elements of x.
        weights: float32, shape of `places`.
    """
    terms = places.shape[1]
    return _native.step_interpolate(x, y, axis, places.ravel().tolist(), weights.ravel().tolist(), terms)


def fill(y: View, value: int) -> NativeStep:
    """Set every byte of y, but for its halo."""
    return _native.step_fill(y, value)


def copy(x: View, y: View, kernels: Kernels | None = None) -> NativeStep:
    """Copy x to y; they have one dtype and one shape."""
    return _native.step_copy(kernels_or_chosen(kernels)["transpose"], x, y)


def resize(x: View, y: View, indices: Sequence[Sequence[int]]) -> NativeStep:
    """Make the step for nearest resizing, with one list per axis of y.

    ``y[i, j, ...] = x[indices[0][i], indices[1][j], ...]``.
    """
    return _native.step_resize(x, y, [list(map(int, axis)) for axis in indices])
