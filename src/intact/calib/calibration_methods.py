"""The calibration methods: how each chooses the range to keep from the counts of a tensor.

A new one is a `Method` among `METHODS`, with its options among `MethodOptions`; everything else asks there:
`amax_of` and `range_of`, "auto", `quantize`, `intact.torch.calibrate`, the command line and reports. Its
test is a case of tests/calib/test_methods.py, its line for users one of docs/index.md. Who does not want to
change this file calls `register_method`:

>>> import numpy as np
>>> from intact.calib import METHODS, Histogram, Method, amax_of, register_method
>>> from intact.spec import QuantSpec
>>> def three_sigma(row, spec, options):  # each bin counts with its middle
...     counts = row.positive + row.negative
...     middles = row.width * (np.arange(len(counts)) + 0.5)
...     return min(3 * float(np.sqrt((counts * middles**2).sum() / counts.sum())), row.amax)
>>> def three_sigma_ends(row, spec, options):
...     amax = three_sigma(row, spec, options)
...     return max(row.low, -amax), min(row.high, amax)
>>> register_method(Method("three_sigma", three_sigma, three_sigma_ends))
>>> histogram = Histogram()
>>> histogram.collect(np.random.default_rng(0).standard_normal(10_000, np.float32))
>>> print(f"{float(amax_of(histogram, QuantSpec('int8'), 'three_sigma')):.1f}")
3.0
>>> del METHODS["three_sigma"]
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from intact.calib.range_search import VARIANTS, best_affine, entropy_edge, symmetric_errors, widest_best
from intact.errors import QuantValueError
from intact.numerics import scale_from_amax
from intact.spec import QuantSpec

LEAST_VALUES = 2**14
"""Least number of values for "entropy", and for "percentile" at 99.99.

Of 256 values of an exponential distribution entropy keeps 13 to 32 dB where the maximum keeps 37 to 40; of
65,536 it keeps as much as the maximum or more.
"""


@dataclass(frozen=True)
class MethodOptions:
    """Holds the options of all methods; each is a keyword of `amax_of` and `range_of`.

    Attributes:
        percentile: Percentage of the values that the range keeps, at either end if it has two.
        variant: Form of "entropy": "pytorch_quantization" or "gtc2017".
        start_bin, stride: Which edges "entropy" tries.
        scale_bits: Widen the chosen range until its scale has at most so many significant bits (see
            `numerics.short_amax`); None keeps the range as it was chosen.
        least_values: Of how many values "entropy" chooses, and "percentile" at 99.99 (at 99 of a hundredth of
            them): of fewer the range is whole. 0: of any number, as the sources of the methods do.
    """

    percentile: float = 99.99
    variant: str = VARIANTS[0]
    start_bin: int = 128
    stride: int = 1
    scale_bits: int | None = None
    least_values: int = 0

    def __post_init__(self) -> None:
        require(0 <= self.percentile <= 100, "percentile", self.percentile, "0 <= percentile <= 100")
        require(self.variant in VARIANTS, "variant", repr(self.variant), f"one of {', '.join(VARIANTS)}")
        require(self.start_bin >= 1, "start_bin", self.start_bin, "at least 1")
        require(self.stride >= 1, "stride", self.stride, "at least 1")
        require(self.least_values >= 0, "least_values", self.least_values, "0 or more")


@dataclass(frozen=True)
class GranuleCounts:
    """Holds the counts of one granule up to the bin of its largest magnitude, and its exact ends."""

    positive: NDArray[np.int64]
    negative: NDArray[np.int64]
    width: float
    low: float
    high: float

    @property
    def total(self) -> int:
        """The number of values."""
        return int(self.positive.sum() + self.negative.sum())

    @property
    def amax(self) -> float:
        """The largest magnitude."""
        return max(-self.low, self.high)

    @property
    def sides(self) -> tuple[float, float]:
        """Return the largest distances of values below and above 0."""
        return max(-self.low, 0.0), max(self.high, 0.0)

    def magnitude_counts(self, spec: QuantSpec) -> tuple[NDArray[np.int64], float]:
        """Return the counts of magnitudes up to the largest that a symmetric grid can keep, and that
        magnitude.
        """
        top = self.top(spec)
        bins = int(top / self.width) + 1
        positive = self.positive[:bins]
        return (positive if spec.qmin >= 0 else positive + self.negative[:bins]), top

    def top(self, spec: QuantSpec) -> float:
        """Return the largest magnitude that a symmetric grid can keep; an unsigned one has no values
        below 0.
        """
        return self.high if spec.qmin >= 0 else self.amax


@dataclass(frozen=True)
class Method:
    """Describes one way to choose a range.

    Attributes:
        name: What users call it.
        amax: The largest magnitude to keep of a granule that has some, for a symmetric grid: at most the
            largest that it has. None: that one, for which a `Range` will do.
        ends: Both ends to keep, for an asymmetric grid; None: the smallest and the largest value.
        bare: The amax of a bare histogram of magnitudes as the old library defines it, see
            `amax_from_counts`; None: that of `amax`.
        for_floats: Whether it can choose for a float format.
        needs: How many values show it a distribution; None: it takes none for one.
    """

    name: str
    amax: Callable[[GranuleCounts, QuantSpec, MethodOptions], float] | None
    ends: Callable[[GranuleCounts, QuantSpec, MethodOptions], tuple[float, float]] | None
    bare: Callable[[NDArray[np.int64], float, QuantSpec, MethodOptions], float] | None = None
    for_floats: bool = True
    needs: Callable[[MethodOptions], float] | None = None

    def is_served_by(self, count: NDArray[np.int64] | int, options: MethodOptions) -> bool:
        """Return whether so many values, in each granule, are enough to choose by.

        Args:
            count: Number of values; int64 of the kept axes, or one.
            options: Of the method.
        """
        return self.needs is None or bool(np.all(count >= self.needs(options)))

    @property
    def needs_counts(self) -> bool:
        """Return whether the method needs a Histogram, not only a `Range`."""
        return self.amax is not None

    def offers(self, spec: QuantSpec) -> bool:
        """Return whether it can choose for the format of `spec`."""
        return self.for_floats or not spec.format.is_float


def register_method(method: Method) -> None:
    """Add a method of one's own to `METHODS`.

    Raises:
        QuantValueError: There is one of that name, or "auto", which stands for all of them.
    """
    names = (*METHODS, "auto")
    require(method.name not in names, "method", repr(method.name), f"a name that is not {', '.join(names)}")
    METHODS[method.name] = method


def require(condition: bool, where: str, got: object, want: str) -> None:
    """Raise a QuantValueError unless `condition` holds.

    Raises:
        QuantValueError: `condition` does not hold.
    """
    if not condition:
        raise QuantValueError(where, str(got), want, "choose a value in that range")


# ---- percentile ----


def _percentile_amax(row: GranuleCounts, spec: QuantSpec, options: MethodOptions) -> float:
    counts, top = row.magnitude_counts(spec)
    return min(row.width * (_percentile_bin(counts, options.percentile) + 1), top)


def _percentile_ends(row: GranuleCounts, spec: QuantSpec, options: MethodOptions) -> tuple[float, float]:
    below, above = row.sides
    return (
        -_side_percentile(row.negative, row.positive, row.width, below, options.percentile),
        _side_percentile(row.positive, row.negative, row.width, above, options.percentile),
    )


def _percentile_bare(
    counts: NDArray[np.int64], width: float, spec: QuantSpec, options: MethodOptions
) -> float:
    return width * _percentile_bin(counts, options.percentile)


def _side_percentile(
    own: NDArray[np.int64], other: NDArray[np.int64], width: float, end: float, percentile: float
) -> float:
    # Everything on the other side of 0 is kept by this end wherever it lies.
    counts = np.concatenate([[other.sum()], own])
    return min(width * _percentile_bin(counts, percentile), end)


def _percentile_needs(options: MethodOptions) -> float:
    """Return how many values leave about two beyond the percentile."""
    beyond = 100 - options.percentile
    return options.least_values * 0.01 / beyond if beyond > 0 else 0.0


def _percentile_bin(counts: NDArray[np.int64], percentile: float) -> int:
    """Return the first bin at whose upper edge the share of the counts reaches `percentile`."""
    return int(np.searchsorted(np.cumsum(counts) / counts.sum(), percentile / 100))


# ---- mse ----


def _mse_amax(row: GranuleCounts, spec: QuantSpec, options: MethodOptions) -> float:
    counts, top = row.magnitude_counts(spec)
    if _levels(spec) >= len(counts):
        return top
    edges = np.minimum(row.width * np.arange(1, len(counts) + 1), top)
    scales = scale_from_amax(edges, spec) / np.float64(row.width)
    bins = len(counts)
    errors = symmetric_errors(row.positive[:bins], row.negative[:bins], spec, scales)
    return float(edges[widest_best(errors, float(errors.max()))])


def _mse_ends(row: GranuleCounts, spec: QuantSpec, options: MethodOptions) -> tuple[float, float]:
    below, above = row.sides
    if spec.qmax - spec.qmin + 1 < len(row.positive):
        ends = np.array([below, above])
        below, above = best_affine(row.positive, row.negative, spec, row.width, ends)
    return -below, above


def _mse_bare(counts: NDArray[np.int64], width: float, spec: QuantSpec, options: MethodOptions) -> float:
    middles = width * (np.arange(options.start_bin, len(counts), options.stride) + 0.5)
    if not len(middles):
        return width * len(counts)
    scales = scale_from_amax(middles, spec) / np.float64(width)
    return float(middles[np.argmin(symmetric_errors(counts, np.zeros_like(counts), spec, scales, 0.5))])


# ---- entropy ----


def _entropy_amax(row: GranuleCounts, spec: QuantSpec, options: MethodOptions) -> float:
    counts, top = row.magnitude_counts(spec)
    edge = _entropy_edge(counts, row.width, _levels(spec), options)
    return top if edge is None else min(edge, top)


def _entropy_ends(row: GranuleCounts, spec: QuantSpec, options: MethodOptions) -> tuple[float, float]:
    below, above = row.sides
    codes = spec.qmax - spec.qmin + 1
    share = [int(np.rint(codes * side / max(below + above, row.width))) for side in (below, above)]
    return (
        -_side_entropy(row.negative, row.width, below, share[0], options),
        _side_entropy(row.positive, row.width, above, share[1], options),
    )


def _entropy_bare(counts: NDArray[np.int64], width: float, spec: QuantSpec, options: MethodOptions) -> float:
    edge = _entropy_edge(counts, width, _levels(spec), options)
    return width * len(counts) if edge is None else edge


def _side_entropy(
    counts: NDArray[np.int64], width: float, end: float, levels: int, options: MethodOptions
) -> float:
    edge = _entropy_edge(counts[: int(end / width) + 1], width, max(levels, 1), options)
    return end if edge is None else min(edge, end)


def _entropy_edge(
    counts: NDArray[np.int64], width: float, levels: int, options: MethodOptions
) -> float | None:
    edge = entropy_edge(counts, levels, options.variant, options.start_bin, options.stride)
    if edge is None:
        return None
    return width * (edge + 0.5 if options.variant == "gtc2017" else edge)


def _entropy_needs(options: MethodOptions) -> float:
    return options.least_values


def _levels(spec: QuantSpec) -> int:
    """Return the number of codes for a magnitude: 2^(bits - 1 + unsigned)."""
    return int(spec.qmax) + 1


def _max_bare(counts: NDArray[np.int64], width: float, spec: QuantSpec, options: MethodOptions) -> float:
    return width * (int(np.flatnonzero(counts)[-1]) + 1)


METHODS: dict[str, Method] = {
    method.name: method
    for method in (
        Method("max", None, None, _max_bare),
        Method("percentile", _percentile_amax, _percentile_ends, _percentile_bare, needs=_percentile_needs),
        Method("mse", _mse_amax, _mse_ends, _mse_bare),
        Method(
            "entropy", _entropy_amax, _entropy_ends, _entropy_bare, for_floats=False, needs=_entropy_needs
        ),
    )
}
"""By name, in the order in which "auto" prefers equals."""
