"""Chooses a range from statistics, by one of the calibration methods."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from intact.calib.calibration_methods import METHODS, GranuleCounts, Method, MethodOptions, require
from intact.calib.histogram import Histogram
from intact.calib.range import Range
from intact.errors import CalibrationError, UnsupportedError
from intact.numerics import short_amax, short_range
from intact.patterns import no_option
from intact.spec import Format, QuantSpec

Stats = Histogram | Range


def amax_of(stats: Stats, spec: QuantSpec, method: str = "max", **options: Any) -> NDArray[np.float32]:
    """Return the largest magnitude to keep, for a symmetric grid.

    - "max": the largest magnitude seen, exactly.
    - "percentile": the smallest edge below which at least `percentile` percent of the magnitudes lie.
    - "mse": the edge whose expected squared error, rounding and clipping together, is the smallest.
    - "entropy": the edge whose quantized distribution has the smallest divergence from the real one.

    An edge beyond the largest magnitude counts as that magnitude. With as many codes as bins, "mse" and
    "entropy" are "max": clipping cannot help there. An unsigned grid looks at the values from 0 on
    alone.

    Args:
        stats: A Histogram, or for "max" a Range, collected with the axis of `spec`. Per-channel
            histograms also serve a per-tensor `spec`: their channels are added.
        spec: The target grid and granularity.
        method: One of `METHODS`.
        options: `percentile` (99.99), `variant` ("pytorch_quantization"), `start_bin` (128), `stride` (1),
            `scale_bits` (None), `least_values` (0).
    Returns:
        float32, granule shape of `spec`, >= 0; 0 where every value is 0.
    Raises:
        CalibrationError: Nothing was collected, or something that is not finite; or the statistic does
            not fit the method or the axis.
        UnsupportedError: The grid has no such method, or `spec` is asymmetric or per-block.
        QuantValueError: An unknown method or a bad option.
    """
    if not spec.symmetric:
        raise UnsupportedError("spec", str(spec), "a symmetric grid", "use range_of for an asymmetric one")
    method_entry, method_options = check_method(stats, spec, method, options)
    stats = match_granularity(stats, spec)
    if method_entry.amax is None:
        amax = np.asarray(np.maximum(stats.max, np.float32(0))) if spec.qmin >= 0 else stats.amax
    else:
        choose, serves = method_entry.amax, method_entry.is_served_by

        def amax_of_row(row: GranuleCounts) -> float:
            top = row.top(spec)
            if not top > 0:
                return 0.0
            return choose(row, spec, method_options) if serves(row.total, method_options) else top

        values = [amax_of_row(row) for row in _rows(stats)]
        amax = np.array(values, np.float32).reshape(stats.amax.shape)
    return amax if method_options.scale_bits is None else short_amax(amax, spec, method_options.scale_bits)


def range_of(
    stats: Stats, spec: QuantSpec, method: str = "max", **options: Any
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return the range to keep: as `amax_of`, with two ends where `spec` is asymmetric.

    - "max": smallest and largest value, exactly.
    - "percentile": each end keeps at least `percentile` percent of the values on its side.
    - "mse": the range of the smallest expected squared error on the real grid, zero point included.
    - "entropy": either side of 0 apart, with as many codes as fall to its part of [min, max].

    Args:
        stats: A `Range`, which "max" alone can use, or a `Histogram`.
        spec: The grid; the axes of its scales are those of the statistics.
        method: One of these.
        options: Of the method, for example `percentile`.
    Returns:
        (rmin, rmax), float32, granule shape. For a symmetric grid (-amax, amax), unsigned (0, amax). The
        range need not contain 0: `numerics.affine_from_range` widens it.
    """
    if spec.symmetric:
        amax = amax_of(stats, spec, method, **options)
        return np.zeros_like(amax) if spec.qmin >= 0 else np.asarray(0 - amax), amax
    method_entry, method_options = check_method(stats, spec, method, options)
    stats = match_granularity(stats, spec)
    if method_entry.ends is None:
        low, high = stats.min, stats.max
    else:
        # + 0 makes a plain zero of the -0 that an empty negative side gives.
        choose = method_entry.ends
        rows = [
            choose(row, spec, method_options)
            if method_entry.is_served_by(row.total, method_options)
            else (row.low, row.high)
            for row in _rows(stats)
        ]
        ends = np.array(rows, np.float32) + np.float32(0)
        low, high = (column.reshape(stats.amax.shape) for column in ends.T)
    return (
        (low, high)
        if method_options.scale_bits is None
        else short_range(low, high, spec, method_options.scale_bits)
    )


def amax_from_counts(
    counts: ArrayLike,
    width: float,
    bits: int | tuple[int, int],
    unsigned: bool,
    method: str,
    **options: Any,
) -> float:
    """Choose amax from a bare histogram of |x|, as `pytorch_quantization`'s HistogramCalibrator does.

    "entropy" is as in `amax_of`. "mse" takes the middles of the bins from `start_bin` on as candidates and
    the first of the best. "percentile" gives the lower edge of the bin that reaches it; "max" the upper
    edge of the last bin in use.

    Args:
        counts: Magnitudes in bins of one width that start at 0, whole numbers [bins]. Not changed.
        width: Width of a bin, in the unit of the tensor.
        bits: Number of bits of an integer grid, or (4, 3) and (5, 2) for fp8.
        unsigned: Whether the grid is [0, 2^bits - 1].
        method, options: As for `amax_of`; `start_bin` and `stride` also choose the candidates of "mse".
    Returns:
        amax in the unit of the tensor; 0 where the width is 0, as it is when every value is 0.
    Raises:
        CalibrationError: There are no counts, or they are no counts.
        QuantValueError, UnsupportedError: As for `amax_of`.
    Source: pytorch_quantization 2.2.1, calib/histogram.py (behaviour).
    """
    bins, spec = _as_counts(counts, width), _bare_spec(bits, unsigned)
    method_entry, method_options = _method(method, spec), _options(options)
    if width == 0:
        return 0.0
    if method_entry.bare is not None:
        return method_entry.bare(bins, width, spec, method_options)
    assert method_entry.amax is not None, "only 'max' needs no counts"
    row = GranuleCounts(bins, np.zeros_like(bins), width, 0.0, width * (int(np.flatnonzero(bins)[-1]) + 1))
    return method_entry.amax(row, spec, method_options)


def _rows(stats: Stats) -> list[GranuleCounts]:
    assert isinstance(stats, Histogram)
    columns = (np.atleast_1d(a).tolist() for a in (stats.bin_width, stats.min, stats.max))
    halves = np.atleast_2d(stats.positive), np.atleast_2d(stats.negative)
    rows = []
    for positive, negative, width, low, high in zip(*halves, *columns, strict=True):
        bins = int(max(-low, high) / width) + 1
        rows.append(GranuleCounts(positive[:bins], negative[:bins], width, low, high))
    return rows


def _as_counts(counts: ArrayLike, width: float) -> NDArray[np.int64]:
    array = np.asarray(counts)
    whole = array.ndim == 1 and bool((np.isfinite(array) & (array >= 0)).all())
    if not whole or not array.any() or not np.array_equal(array, np.floor(array)):
        raise CalibrationError(
            "counts",
            "no counts" if whole and not array.any() else f"{array.dtype} of shape {array.shape}",
            "a vector of whole numbers >= 0, not all of them 0",
            "collect at least one batch before asking for amax",
        )
    require(np.isfinite(width) and width >= 0, "width", width, "a finite width >= 0")
    return array.astype(np.int64)


def _bare_spec(bits: int | tuple[int, int], unsigned: bool) -> QuantSpec:
    if isinstance(bits, tuple):
        return QuantSpec(Format.parse(f"fp{sum(bits) + 1}e{bits[0]}m{bits[1]}"))
    return QuantSpec(Format.integer(bits, signed=not unsigned))


def _options(options: Mapping[str, Any]) -> MethodOptions:
    """Return the options of a method by name.

    Raises:
        QuantValueError: There is none of that name.
    """
    names = [option.name for option in fields(MethodOptions)]
    for name in options:
        if name not in names:
            raise no_option(name, names)
    return MethodOptions(**options)


def check_method(
    stats: Stats, spec: QuantSpec, method: str, options: Mapping[str, Any]
) -> tuple[Method, MethodOptions]:
    """Return the method called `method` and its options, after a check that they fit statistic and grid.

    Args:
        stats: A Histogram or Range.
        spec: The grid.
        method: Its name.
        options: Of `amax_of`, by name.
    Raises:
        CalibrationError: The method needs a Histogram, and `stats` is none.
        UnsupportedError: The grid has no such method.
        QuantValueError: There is no such method or option.
    """
    chosen = _method(method, spec)
    if chosen.needs_counts and not isinstance(stats, Histogram):
        raise CalibrationError(
            "statistics",
            f"a {type(stats).__name__} for method '{method}'",
            "a Histogram",
            "collect a Histogram, or use method 'max'",
        )
    return chosen, _options(options)


def _method(name: str, spec: QuantSpec) -> Method:
    require(name in METHODS, "method", repr(name), f"one of {', '.join(METHODS)}")
    if not METHODS[name].offers(spec):
        raise UnsupportedError(
            "method", f"'{name}' with format {spec.format}", "an integer format", "use 'mse' or 'max'"
        )
    return METHODS[name]


def match_granularity(stats: Stats, spec: QuantSpec) -> Stats:
    """Return `stats` with the granularity of `spec`, after a check that they hold finite values.

    Args:
        stats: A Histogram or Range.
        spec: The grid.
    Raises:
        UnsupportedError: `spec` is per-block.
        CalibrationError: Nothing was collected, or values that are not finite, or along another axis.
    """
    if spec.block_size is not None:
        raise UnsupportedError(
            "spec",
            str(spec),
            "per-tensor or per-channel",
            "take the range of every block with numerics.absmax",
        )
    if not stats.count.any():
        raise CalibrationError(
            "statistics",
            "nothing collected",
            "at least one value",
            "run at least one batch through the model before asking for a range",
        )
    if nonfinite := int(stats.nonfinite.sum()):
        raise CalibrationError(
            "statistics",
            f"{nonfinite} NaN or infinities beside {int(stats.count.sum())} finite values",
            "finite values only",
            "find the layer that produces them in the float model (or the sample in the data) and repair it",
        )
    if spec.axis is None:
        return stats if stats.axis is None else stats.per_tensor()
    mine = () if stats.axis is None else (stats.axis,) if isinstance(stats.axis, int) else stats.axis
    fits = len(mine) == len(spec.axes) and (min(spec.axes) < 0 or tuple(sorted(spec.axes)) == mine)
    if not fits:
        raise CalibrationError(
            "statistics",
            f"axis {stats.axis}",
            f"axis {spec.axis}, as the specification has it",
            "collect with the axis that the tensor is quantized along",
        )
    return stats
