"""Makers of native steps that move elements, fill memory, or work on elements of any type.

Each returns a step for `Program.add`. Codes are bytes; every zero point and bound here is one of bytes.
Images are views (n, h, w, c) whose channels are neighbours. Makers raise ValueError for what is unsafe to
run (csrc/base/check.h).
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


def gather(x: View, index: View, y: View, axis: int = 0) -> NativeStep:
    """``y[i, j, k] = x[i, index[j], k]``, where i stands for the axes before `axis`, k for those behind it.

    Args:
        x, y: Of one dtype.
        index: int32 or int64, of any rank; negative ones count from the end. What is out of range fails.
        axis: Of x.
    """
    return _native.step_gather(x, index, y, axis)


def elementwise(operation: str, xs: Sequence[View], y: View, kernels: Kernels | None = None) -> NativeStep:
    """``y = operation(*xs)``, one of `numerics.ELEMENTWISE` (N53); the views have the sizes of y."""
    return _native.step_elementwise(kernels_or_chosen(kernels)["elementwise"], operation, list(xs), y)


def fold(x: View, y: View, axis: int, function: str) -> NativeStep:
    """One number for the elements along an axis (N60), which has size 1 in y; x and y have one dtype.

    Args:
        x, y: int32 or int64; float32 for products.
        axis: Along which.
        function: One of `numerics.fold.FOLDS`.
    """
    return _native.step_fold(x, y, axis, function)


def cum_sum(x: View, y: View, axis: int, *, exclusive: bool = False, reverse: bool = False) -> NativeStep:
    """Running sums along an axis (N54); x and y have one shape and one dtype."""
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
    """Places of the largest elements along an axis (N54), which has size 1 in y, int64."""
    return _native.step_arg_max(kernels_or_chosen(kernels)["transpose"], x, y, axis, smallest, last)


def gather_elements(x: View, index: View, y: View, axis: int) -> NativeStep:
    """``y[i, j, ...] = x[index[i, j, ...], j, ...]``, where axis is 0.

    Args:
        x, y: Of one dtype.
        index: int32 or int64, of the sizes of y; negative ones count from the end. Out of range they fail.
        axis: Along which they count.
    """
    return _native.step_gather_elements(x, index, y, axis)


def top_k(x: View, y: View, places: View, axis: int, *, largest: bool = True) -> NativeStep:
    """The largest (smallest) elements along an axis, as many as y has there, and their places (N58)."""
    return _native.step_top_k(x, y, places, axis, largest)


def scatter_elements(
    index: View, updates: View, y: View, axis: int, *, reduction: str = "none"
) -> NativeStep:
    """``y[index[i, j, ...], j, ...] = updates[i, j, ...]``, where axis is 0, or what `reduction` makes of
    both (N58).

    Args:
        index: int32 or int64; negative ones count from the end. What is out of range fails.
        updates: Of its sizes, and of y's dtype.
        y: What is not written stays.
        axis: Along which they count.
        reduction: One of `numerics.scatter_elements.REDUCTIONS`.
    """
    return _native.step_scatter_elements(index, updates, y, axis, reduction)


def scatter_rows(
    index: View, updates: View, y: View, sizes: Sequence[int], *, reduction: str = "none"
) -> NativeStep:
    """Rows of y by tuples of indices (N58).

    Args:
        index: int32 or int64 [n, axes]; as for `scatter_elements`.
        updates: [n, width].
        y: [product of sizes, width], rows side by side. What is not written stays.
        sizes: What each number of a tuple counts.
        reduction: One of `numerics.scatter_elements.REDUCTIONS`.
    """
    return _native.step_scatter_rows(index, updates, y, list(sizes), reduction)


def gather_rows(x: View, index: View, y: View, sizes: Sequence[int], parts: int) -> NativeStep:
    """Rows of x by tuples of indices.

    Args:
        x: [parts * product of sizes, width], rows side by side.
        index: As for `scatter_rows`; as many tuples for each part, one part behind the other.
        y: [n, width].
        sizes: What each number of a tuple counts.
        parts: Of x.
    """
    return _native.step_gather_rows(x, index, y, list(sizes), parts)


def grid_sample(
    x: View, grid: View, y: View, *, nearest: bool, padding: str, align_corners: bool
) -> NativeStep:
    """Images x [n, c, h, w] at the places of a grid [n, rows, columns, 2], float32 (N59)."""
    return _native.step_grid_sample(x, grid, y, nearest, padding, align_corners)


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


def resize(x: View, y: View, indices: Sequence[Sequence[int]]) -> NativeStep:
    """``y[i, j, ...] = x[indices[0][i], indices[1][j], ...]``; one list for each axis of y."""
    return _native.step_resize(x, y, [list(map(int, axis)) for axis in indices])
