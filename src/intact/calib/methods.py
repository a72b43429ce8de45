"""From statistics to a range, by one of four methods; from a range to the error to expect."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from intact.calib.entropy import VARIANTS, entropy_edge
from intact.calib.histogram import Histogram
from intact.calib.range import Range
from intact.calib.squared_error import best_affine, symmetric_errors, widest_best
from intact.errors import CalibrationError, QuantValueError, UnsupportedError
from intact.numerics import affine_from_range, fake_quantize, scale_from_amax, short_amax, short_range
from intact.spec import Format, QuantSpec

Stats = Histogram | Range
METHODS = ("max", "percentile", "mse", "entropy")


@dataclass(frozen=True)
class Options:
    """What tunes a method; each is a keyword of `amax_of` and `range_of`.

    Attributes:
        percentile: Percentage of the values that the range keeps, at either end if it has two.
        variant: Form of "entropy": "pytorch_quantization" or "gtc2017".
        start_bin, stride: Which edges "entropy" tries.
        scale_bits: Widen the chosen range until its scale has at most so many significant bits (see
            `numerics.short_amax`); None keeps the range as it was chosen.
    """

    percentile: float = 99.99
    variant: str = VARIANTS[0]
    start_bin: int = 128
    stride: int = 1
    scale_bits: int | None = None

    def __post_init__(self) -> None:
        _require(0 <= self.percentile <= 100, "percentile", self.percentile, "0 <= percentile <= 100")
        _require(self.variant in VARIANTS, "variant", repr(self.variant), f"one of {', '.join(VARIANTS)}")
        _require(self.start_bin >= 1, "start_bin", self.start_bin, "at least 1")
        _require(self.stride >= 1, "stride", self.stride, "at least 1")


@dataclass(frozen=True)
class _Row:
    """One granule: its counts up to the bin of the largest magnitude, and its exact ends."""

    positive: NDArray[np.int64]
    negative: NDArray[np.int64]
    width: float
    low: float
    high: float

    @property
    def amax(self) -> float:
        return max(-self.low, self.high)


def amax_of(stats: Stats, spec: QuantSpec, method: str = "max", **options: Any) -> NDArray[np.float32]:
    """The largest magnitude to keep, for a symmetric grid.

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
            `scale_bits` (None).
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
    tuned = _checked(stats, spec, method, options)
    stats = _fitted(stats, spec)
    if method == "max":
        amax = np.asarray(np.maximum(stats.max, np.float32(0))) if spec.qmin >= 0 else stats.amax
    else:
        values = [_amax(row, spec, method, tuned) for row in _rows(stats)]
        amax = np.array(values, np.float32).reshape(stats.amax.shape)
    return amax if tuned.scale_bits is None else short_amax(amax, spec, tuned.scale_bits)


def range_of(
    stats: Stats, spec: QuantSpec, method: str = "max", **options: Any
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """The range to keep: as `amax_of`, with two ends where `spec` is asymmetric.

    - "max": smallest and largest value, exactly.
    - "percentile": each end keeps at least `percentile` percent of the values on its side.
    - "mse": the range of the smallest expected squared error on the real grid, zero point included.
    - "entropy": either side of 0 apart, with as many codes as fall to its part of [min, max].

    Returns:
        (rmin, rmax), float32, granule shape. For a symmetric grid (-amax, amax), unsigned (0, amax). The
        range need not contain 0: `numerics.affine_from_range` widens it.
    """
    if spec.symmetric:
        amax = amax_of(stats, spec, method, **options)
        return np.zeros_like(amax) if spec.qmin >= 0 else np.asarray(0 - amax), amax
    tuned = _checked(stats, spec, method, options)
    stats = _fitted(stats, spec)
    if method == "max":
        low, high = stats.min, stats.max
    else:
        # + 0 makes a plain zero of the -0 that an empty negative side gives.
        ends = np.array([_ends(row, spec, method, tuned) for row in _rows(stats)], np.float32) + np.float32(0)
        low, high = (column.reshape(stats.amax.shape) for column in ends.T)
    return (low, high) if tuned.scale_bits is None else short_range(low, high, spec, tuned.scale_bits)


def expected_error(stats: Histogram, spec: QuantSpec, amax: ArrayLike | tuple[ArrayLike, ArrayLike]) -> float:
    """Mean squared error that quantization with this range makes on the collected values.

    Every bin counts with its middle (the first one with 0), quantized by `numerics.fake_quantize`.

    Args:
        stats: The histogram of the tensor.
        spec: The grid and granularity.
        amax: Granule-shaped amax of a symmetric grid, or (rmin, rmax).
    Returns:
        The mean over all values of all channels, in the tensor's unit squared.
    Raises:
        CalibrationError: Nothing was collected, or the statistic does not fit.
    """
    _checked(stats, spec, "mse", {})
    error, _ = _sums(stats, spec, amax)
    return error


def expected_sqnr(stats: Histogram, spec: QuantSpec, amax: ArrayLike | tuple[ArrayLike, ArrayLike]) -> float:
    """Signal to quantization noise ratio in dB: 10 log10(E x^2 / E err^2); inf where nothing is lost."""
    _checked(stats, spec, "mse", {})
    error, signal = _sums(stats, spec, amax)
    if error == 0:
        return float("inf")
    return 10 * float(np.log10(signal / error)) if signal > 0 else float("-inf")


def amax_from_counts(
    counts: ArrayLike,
    width: float,
    bits: int | tuple[int, int],
    unsigned: bool,
    method: str,
    **options: Any,
) -> float:
    """The method on a bare histogram of |x|, as `pytorch_quantization`'s HistogramCalibrator defines it.

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
    bins, spec = _checked_counts(counts, width), _bare_spec(bits, unsigned)
    _require_method(method, spec)
    tuned = Options(**options)
    if width == 0:
        return 0.0
    if method == "percentile":
        return width * _percentile_bin(bins, tuned.percentile)
    if method == "max":
        return width * (int(np.flatnonzero(bins)[-1]) + 1)
    if method == "entropy":
        edge = _entropy_amax(bins, width, _levels(spec), tuned)
        return width * len(bins) if edge is None else edge
    middles = width * (np.arange(tuned.start_bin, len(bins), tuned.stride) + 0.5)
    if not len(middles):
        return width * len(bins)
    scales = scale_from_amax(middles, spec) / np.float64(width)
    return float(middles[np.argmin(symmetric_errors(bins, np.zeros_like(bins), spec, scales, 0.5))])


def _amax(row: _Row, spec: QuantSpec, method: str, tuned: Options) -> float:
    unsigned = spec.qmin >= 0
    top = row.high if unsigned else row.amax
    if top <= 0:
        return 0.0
    bins = int(top / row.width) + 1
    positive, negative = row.positive[:bins], row.negative[:bins]
    counts = positive if unsigned else positive + negative
    if method == "percentile":
        return min(row.width * (_percentile_bin(counts, tuned.percentile) + 1), top)
    if method == "entropy":
        edge = _entropy_amax(counts, row.width, _levels(spec), tuned)
        return top if edge is None else min(edge, top)
    if _levels(spec) >= bins:
        return top
    edges = np.minimum(row.width * np.arange(1, bins + 1), top)
    scales = scale_from_amax(edges, spec) / np.float64(row.width)
    errors = symmetric_errors(positive, negative, spec, scales)
    return float(edges[widest_best(errors, float(errors.max()))])


def _ends(row: _Row, spec: QuantSpec, method: str, tuned: Options) -> tuple[float, float]:
    below, above = max(-row.low, 0.0), max(row.high, 0.0)
    codes = spec.qmax - spec.qmin + 1
    if method == "percentile":
        return (
            -_side_percentile(row.negative, row.positive, row.width, below, tuned.percentile),
            _side_percentile(row.positive, row.negative, row.width, above, tuned.percentile),
        )
    if method == "entropy":
        share = [int(np.rint(codes * side / max(below + above, row.width))) for side in (below, above)]
        return (
            -_side_entropy(row.negative, row.width, below, share[0], tuned),
            _side_entropy(row.positive, row.width, above, share[1], tuned),
        )
    if codes >= len(row.positive):
        return -below, above
    below, above = best_affine(row.positive, row.negative, spec, row.width, np.array([below, above]))
    return -below, above


def _side_percentile(
    own: NDArray[np.int64], other: NDArray[np.int64], width: float, end: float, percentile: float
) -> float:
    # Everything on the other side of 0 is kept by this end wherever it lies.
    counts = np.concatenate([[other.sum()], own])
    return min(width * _percentile_bin(counts, percentile), end)


def _side_entropy(counts: NDArray[np.int64], width: float, end: float, levels: int, tuned: Options) -> float:
    edge = _entropy_amax(counts[: int(end / width) + 1], width, max(levels, 1), tuned)
    return end if edge is None else min(edge, end)


def _percentile_bin(counts: NDArray[np.int64], percentile: float) -> int:
    """The first bin at whose upper edge the share of the counts reaches `percentile`."""
    return int(np.searchsorted(np.cumsum(counts) / counts.sum(), percentile / 100))


def _entropy_amax(counts: NDArray[np.int64], width: float, levels: int, tuned: Options) -> float | None:
    edge = entropy_edge(counts, levels, tuned.variant, tuned.start_bin, tuned.stride)
    if edge is None:
        return None
    return width * (edge + 0.5 if tuned.variant == "gtc2017" else edge)


def _levels(spec: QuantSpec) -> int:
    """Number of codes for a magnitude: 2^(bits - 1 + unsigned)."""
    return int(spec.qmax) + 1


def _sums(
    stats: Histogram, spec: QuantSpec, amax: ArrayLike | tuple[ArrayLike, ArrayLike]
) -> tuple[float, float]:
    """Means of the squared error and of the squared values."""
    rows = _fitted(stats, spec)
    assert isinstance(rows, Histogram)
    if spec.symmetric:
        scale = scale_from_amax(amax[1] if isinstance(amax, tuple) else amax, spec)
        zero_point = np.zeros((), np.int32)
    else:
        low, high = amax if isinstance(amax, tuple) else (np.negative(amax), amax)
        scale, zero_point = affine_from_range(low, high, spec)
    middles = np.arange(rows.positive.shape[-1]) + 0.5
    middles[0] = 0
    x = np.multiply.outer(rows.bin_width, middles)
    error = signal = 0.0
    by_row = spec.with_(axis=None if rows.axis is None else 0)
    for counts, sign in ((rows.positive, 1), (rows.negative, -1)):
        real = (sign * x).astype(np.float32)
        lost = real - fake_quantize(real, scale, zero_point, by_row).astype(np.float64)
        error += float((counts * lost**2).sum())
        signal += float((counts * x**2).sum())
    total = int(rows.count.sum())
    return error / total, signal / total


def _rows(stats: Stats) -> list[_Row]:
    assert isinstance(stats, Histogram)
    columns = (np.atleast_1d(a).tolist() for a in (stats.bin_width, stats.min, stats.max))
    halves = np.atleast_2d(stats.positive), np.atleast_2d(stats.negative)
    rows = []
    for positive, negative, width, low, high in zip(*halves, *columns, strict=True):
        bins = int(max(-low, high) / width) + 1
        rows.append(_Row(positive[:bins], negative[:bins], width, low, high))
    return rows


def _checked_counts(counts: ArrayLike, width: float) -> NDArray[np.int64]:
    array = np.asarray(counts)
    whole = array.ndim == 1 and bool((np.isfinite(array) & (array >= 0)).all())
    if not whole or not array.any() or not np.array_equal(array, np.floor(array)):
        raise CalibrationError(
            "counts",
            "no counts" if whole and not array.any() else f"{array.dtype} of shape {array.shape}",
            "a vector of whole numbers >= 0, not all of them 0",
            "collect at least one batch before asking for amax",
        )
    _require(np.isfinite(width) and width >= 0, "width", width, "a finite width >= 0")
    return array.astype(np.int64)


def _bare_spec(bits: int | tuple[int, int], unsigned: bool) -> QuantSpec:
    if isinstance(bits, tuple):
        return QuantSpec(Format.parse(f"fp{sum(bits) + 1}e{bits[0]}m{bits[1]}"))
    return QuantSpec(Format.integer(bits, signed=not unsigned))


def _checked(stats: Stats, spec: QuantSpec, method: str, options: dict[str, Any]) -> Options:
    _require_method(method, spec)
    if method != "max" and not isinstance(stats, Histogram):
        raise CalibrationError(
            "statistics",
            f"a {type(stats).__name__} for method '{method}'",
            "a Histogram",
            "collect a Histogram, or use method 'max'",
        )
    return Options(**options)


def _require_method(method: str, spec: QuantSpec) -> None:
    _require(method in METHODS, "method", repr(method), f"one of {', '.join(METHODS)}")
    if method == "entropy" and spec.format.is_float:
        raise UnsupportedError(
            "method", f"'entropy' with format {spec.format}", "an integer format", "use 'mse' or 'max'"
        )


def _require(condition: bool, where: str, got: object, want: str) -> None:
    if not condition:
        raise QuantValueError(where, str(got), want, "choose a value in that range")


def _fitted(stats: Stats, spec: QuantSpec) -> Stats:
    """`stats` with the granularity of `spec`, after a check that it can say anything."""
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
    if lost := int(stats.nonfinite.sum()):
        raise CalibrationError(
            "statistics",
            f"{lost} NaN or infinities beside {int(stats.count.sum())} finite values",
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
