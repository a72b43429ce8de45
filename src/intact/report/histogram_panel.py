"""A report panel of one quantizer: its histogram and the range of each method."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from intact.calib import Histogram, expected_sqnr, range_of
from intact.errors import IntactError
from intact.spec import QuantSpec

PLOTTED_BINS = 120


@dataclass(frozen=True)
class Panel:
    """Holds what a page shows of one quantizer.

    Attributes:
        name: The quantizer's name in the model.
        left: Left edges of the plotted bins, float64 [bins], ascending, in the tensor's unit.
        width: Width of one plotted bin, in the tensor's unit.
        counts: Values in each bin, int64 [bins].
        ranges: (rmin, rmax) by method; a per-channel quantizer shows the widest of its channels.
        sqnr: Expected signal to quantization noise ratio by method, in dB.
        chosen: The method in use, a key of `ranges`; "" where none is.
        facts: Short name-value pairs shown beside the plot: count, range, format.
        notes: Sentences below it.
    """

    name: str
    left: np.ndarray
    width: float
    counts: np.ndarray
    ranges: Mapping[str, tuple[float, float]]
    sqnr: Mapping[str, float]
    chosen: str = ""
    facts: Mapping[str, str] | None = None
    notes: Sequence[str] = ()


def panel(
    name: str,
    stats: Histogram,
    spec: QuantSpec,
    methods: Mapping[str, Mapping[str, float]],
    chosen: str = "",
) -> Panel:
    """Build the panel of one quantizer, with the ranges that each of `methods` chooses from `stats`.

    Args:
        name: The quantizer's name in the model.
        stats: What was collected there.
        spec: The grid that the thresholds are for.
        methods: Options by method, for example ``{"max": {}, "percentile": {"percentile": 99.9}}``.
        chosen: The one of `methods` that the model uses.
    Raises:
        IntactError: As for `intact.calib.range_of`; names the quantizer.
    """
    ranges, sqnr = {}, {}
    try:
        for method, options in methods.items():
            low, high = range_of(stats, spec, method, **options)
            ranges[method] = (float(np.min(low)), float(np.max(high)))
            sqnr[method] = expected_sqnr(stats, spec, (low, high))
    except IntactError as error:
        raise error.at(f"tensor '{name}'") from error
    left, width, counts = curve(stats)
    facts = {
        "format": str(spec),
        "values": f"{int(np.sum(stats.count)):,}",
        "min": f"{float(np.min(stats.min)):.4g}",
        "max": f"{float(np.max(stats.max)):.4g}",
    }
    return Panel(name, left, width, counts, ranges, sqnr, chosen, facts)


def curve(stats: Histogram) -> tuple[np.ndarray, float, np.ndarray]:
    """Return left edges, bin width and counts of `stats` over signed values, at most 2 * PLOTTED_BINS bins.

    Neighbouring bins are added, never resampled: every value that was counted is in the curve once.
    Channels are added together.
    """
    whole = stats if stats.axis is None else stats.per_tensor()
    used = max(_last_used(whole.counts), 1)
    group = 1 << max(0, int(np.ceil(np.log2(used / PLOTTED_BINS))))
    bins = -(-used // group)
    below, above = (
        half[: bins * group].reshape(bins, group).sum(axis=1) if half.any() else half[:0]
        for half in (whole.negative, whole.positive)
    )
    width = float(whole.bin_width) * group
    left = np.arange(-len(below), len(above), dtype=np.float64) * width
    return left, width, np.concatenate([below[::-1], above])


def _last_used(counts: np.ndarray) -> int:
    """Return the number of leading bins up to the last one that is not empty."""
    used = np.flatnonzero(counts)
    return int(used[-1]) + 1 if used.size else 0
