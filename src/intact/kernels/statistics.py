"""Statistics for calibration, in one pass over memory and without a copy of the tensor.

Each function equals its namesake in `intact.numerics`; zeros that it returns are +0.
"""

from __future__ import annotations

from math import prod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from intact.errors import QuantValueError
from intact.kernels import _native
from intact.kernels._arrays import DTYPE_NAMES, dense, inverse, real_array, thread_pool_size
from intact.kernels._layout import Layout, layout_of, memory_order
from intact.kernels.registry import kernels_in_use
from intact.numerics import normalize_axes
from intact.spec import QuantSpec

Axis = int | tuple[int, ...] | None
Floats = NDArray[np.float32]
Doubles = NDArray[np.float64]

MAX_BINS = 1 << 20
"""The most bins of a native histogram."""


class FoundRange(NamedTuple):
    """The range that `collect_pow2` returns besides the bins.

    Attributes:
        min, max: Ends of the finite values; (inf, -inf) when there are none.
        nonfinite: Number of NaN and infinities.
    """

    min: float
    max: float
    nonfinite: int


def absmax(x: ArrayLike, axis: Axis = None, *, threads: int = 1) -> Floats:
    """Compute the largest magnitude of each granule; equals `numerics.absmax`.

    Args:
        x: Reals of any shape, dtype and memory layout.
        axis: The axes that keep an index of their own; None for one number.
        threads: The most threads that work.
    Returns:
        float32, the sizes of `axis` in ascending order. NaN where a granule holds a NaN, 0 where
        it is empty.
    Raises:
        QuantValueError: An axis is out of range.
    """
    x = real_array(x)
    view = _View(x, axis)
    amax = np.zeros(view.flat, np.float32)
    if x.size:
        use = kernels_in_use()
        _native.absmax(
            use["reduce"], use["convert"], DTYPE_NAMES[x.dtype], view.layout, view.dense, amax,
            thread_pool_size(threads),
        )  # fmt: skip
    return view.result(amax)


def minmax(x: ArrayLike, axis: Axis = None, *, threads: int = 1) -> tuple[Floats, Floats]:
    """Compute the smallest and largest value of each granule; equals `numerics.minmax`.

    Arguments are those of `absmax`.

    Returns:
        Two arrays, float32; (inf, -inf) where a granule is empty, NaN where it holds a NaN.
    """
    x = real_array(x)
    view = _View(x, axis)
    low, high = np.full(view.flat, np.inf, np.float32), np.full(view.flat, -np.inf, np.float32)
    if x.size:
        use = kernels_in_use()
        _native.minmax(
            use["reduce"], use["convert"], DTYPE_NAMES[x.dtype], view.layout, view.dense, low,
            high, thread_pool_size(threads),
        )  # fmt: skip
    return view.result(low), view.result(high)


def collect_pow2(
    x: ArrayLike,
    exponent: int,
    negative: NDArray[np.int64],
    positive: NDArray[np.int64],
    *,
    threads: int = 1,
) -> FoundRange:
    """Count as `count_pow2` does, and find the range of the values, in one pass.

    Args:
        x: Reals of any shape, dtype and memory layout. Values that are not finite, or at or beyond
            bins * 2**exponent, are not counted: compare the range with the last edge.
        exponent: Width of a bin, as a power of two.
        negative, positive: int64 [bins] each, dense; counts are ADDED to them.
        threads: The most threads that work.
    Returns:
        Ends of the finite values (also of those not counted) and the number of values not finite.
    Raises:
        QuantValueError: The counters are not two dense int64 arrays of one size.
    """
    _check_counters(negative, positive)
    x, use = real_array(x), kernels_in_use()
    ends = _native.count_pow2(
        use["histogram"], use["convert"], DTYPE_NAMES[x.dtype], _flat(x),
        max(-1000, min(1000, int(exponent))), negative, positive, thread_pool_size(threads),
    )  # fmt: skip
    return FoundRange(*ends)


def count_pow2(
    x: ArrayLike,
    exponent: int,
    negative: NDArray[np.int64],
    positive: NDArray[np.int64],
    *,
    threads: int = 1,
) -> None:
    """Add counts of negative and of other values in bins of |x|, 2**exponent wide, to two arrays.

    As `numerics.count_pow2`; arguments and errors as for `collect_pow2`.
    """
    collect_pow2(x, exponent, negative, positive, threads=threads)


def count_fixed(x: ArrayLike, width: float, counts: NDArray[np.int64], *, threads: int = 1) -> None:
    """Add counts of |x| in bins of any width to `counts`; values beyond the last edge land in the last bin.

    Args:
        x: Reals of any shape, dtype and memory layout. NaN is not counted.
        width: Width of a bin, rounded to float32, > 0.
        counts: int64 [bins], dense.
        threads: The most threads that work.
    Raises:
        QuantValueError: `width` is not positive, or `counts` is not a dense int64 array.
    """
    _check_counters(counts)
    if not np.float32(width) > 0:
        raise QuantValueError("width", f"{width}", "a positive width", "divide the range by the bins")
    x, use = real_array(x), kernels_in_use()
    _native.count_fixed(
        use["histogram"], use["convert"], DTYPE_NAMES[x.dtype], _flat(x), float(width), counts,
        thread_pool_size(threads),
    )  # fmt: skip


def grid_gains(number: Doubles, value: Doubles, numbers: NDArray[Any], scales: Doubles) -> Doubles:
    """Compute how much each scale's symmetric grid lowers the summed squared error, against its first number
    alone.

    Args:
        number, value: Counts, and counts times the middles of their bins, of the bins from i on,
            i = 0..bins, float64 [bins + 1].
        numbers: The numbers of the grid, ascending, [numbers].
        scales: Candidates, in bin widths, float64 [candidates], > 0.
    Returns:
        float64 [candidates], in bin widths squared. Exact sums for integer grids (below 2**52).
    """
    out, numbers = np.empty(len(scales)), numbers.astype(np.float64)
    halfway = (numbers[1:] + numbers[:-1]) / 2
    _native.grid_gains(number, value, halfway, np.diff(numbers), np.diff(numbers**2), scales, out)
    return out


def affine_gains(
    number: Doubles,
    value: Doubles,
    codes: tuple[int, int],
    scales: Doubles,
    zero_points: NDArray[np.int32],
) -> Doubles:
    """Compute how much each scale's asymmetric grid lowers the summed squared error; else as `grid_gains`.

    Args:
        number, value: As for `grid_gains`, over bins of both signs, from the most negative one on. Middles of
            bins below 0 are negative.
        codes: The smallest and the largest code.
        scales, zero_points: Candidates, float64 and int32 [candidates].
    Returns:
        float64 [candidates]: the summed squared error minus the sum of squares.
    """
    out = np.empty(len(scales))
    _native.affine_gains(number, value, *codes, scales, zero_points, out)
    return out


def entropy_divergences(
    counts: Doubles,
    mass: Doubles,
    filled: Doubles,
    levels: int,
    candidates: NDArray[np.int64],
    bounds: Doubles,
    sure: float,
) -> Doubles:
    """Compute KL(P || Q) of clipping a histogram behind some of its bins, see `intact.calib.range_search`.

    Args:
        counts: Counts of the bins, float64 [bins]; not all of them 0.
        mass, filled: The sum of the counts of the first i bins, and the number of these that are not empty,
            for i = 0..bins, float64 [bins + 1].
        levels: The number of parts into which bins are merged, >= 1.
        candidates: Numbers of bins, int64 [candidates], 1..bins.
        bounds: Lower bounds of the divergences, ascending, float64 [candidates].
        sure: A candidate whose bound exceeds the smallest divergence so far by this is skipped, and so are
            all behind it.
    Returns:
        float64 [candidates]; inf for candidates that are skipped, and where Q is 0 and P is not. Logarithms
        are INTact's own.
    """
    out = np.empty(len(candidates))
    _native.entropy_divergences(counts, mass, filled, levels, sure, candidates, bounds, out)
    return out


class _View:
    """The layout of a tensor for native reductions, and the shape of their results."""

    def __init__(self, x: NDArray[Any], axis: Axis) -> None:
        own = normalize_axes(x.shape, QuantSpec(axis=axis)) if axis is not None else ()
        order = memory_order(x) or tuple(range(x.ndim))
        layout = self._layout(x, order, own)
        if layout is None:  # bring these axes to the front: the one case that copies
            order = own + tuple(a for a in range(x.ndim) if a not in own)
            layout = self._layout(x, order, own)
        assert layout is not None
        self.layout: Layout = layout
        self.dense = dense(x, order)
        result_axes = [a for a in order if a in own]
        self._result_shape = tuple(x.shape[a] for a in result_axes)
        self._back = inverse(result_axes)
        self.flat = prod(self._result_shape)

    @staticmethod
    def _layout(x: NDArray[Any], order: tuple[int, ...], own: tuple[int, ...]) -> Layout | None:
        return layout_of(tuple(x.shape[a] for a in order), tuple(a in own for a in order))

    def result(self, flat: Floats) -> Floats:
        # Not ascontiguousarray, which makes a vector of a 0-dimensional result.
        return np.array(flat.reshape(self._result_shape).transpose(self._back), order="C")


def _flat(x: NDArray[Any]) -> NDArray[Any]:
    """Flatten a tensor to one row: a histogram does not depend on the order of elements."""
    return dense(x, memory_order(x) or tuple(range(x.ndim))).reshape(-1)


def _check_counters(*counters: NDArray[np.int64]) -> None:
    bins = counters[0].size
    for c in counters:
        fits = c.dtype == np.int64 and c.shape == (bins,) and c.flags.c_contiguous and c.flags.writeable
        if not fits or not 0 < bins <= MAX_BINS:
            raise QuantValueError(
                "counts",
                f"{c.dtype} of shape {c.shape}",
                f"a dense, writable int64 array of 1 to {MAX_BINS} bins, the same for both halves",
                "make it with np.zeros(bins, np.int64)",
            )
