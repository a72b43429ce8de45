"""Histograms of quantized tensors as curves small enough to plot: counts over signed values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np

PLOTTED_BINS = 240


class Counts(Protocol):
    """What is read of an `intact.calib.Histogram`."""

    negative: np.ndarray
    positive: np.ndarray
    bin_width: float | np.ndarray


@dataclass(frozen=True)
class Panel:
    """One quantizer of the page.

    Attributes:
        name: The quantizer's name in the model.
        left: Left edges of the plotted bins, float64 [bins], ascending, in the tensor's unit.
        width: Width of one plotted bin, in the tensor's unit.
        counts: Values in each bin, int64 [bins].
        thresholds: amax by method. Per-channel quantizers show their largest channel.
        chosen: The method in use, a key of `thresholds`; "" where none is.
        facts: Short name-value pairs shown beside the plot: count, range, format.
    """

    name: str
    left: np.ndarray
    width: float
    counts: np.ndarray
    thresholds: Mapping[str, float]
    chosen: str = ""
    facts: Mapping[str, str] | None = None


def curve(stats: Counts) -> tuple[np.ndarray, float, np.ndarray]:
    """Left edges, bin width and counts of `stats` over signed values, in at most 2 * PLOTTED_BINS bins.

    Neighbouring bins are added, never resampled: every value that was counted is in the curve once.
    """
    width, negative, positive = _one_channel(stats)
    used = max(_last_used(negative), _last_used(positive), 1)
    group = 1 << max(0, int(np.ceil(np.log2(used / PLOTTED_BINS))))
    bins = -(-used // group)
    below = _grouped(negative, group, bins)[::-1] if negative.any() else negative[:0]
    above = _grouped(positive, group, bins) if positive.any() else positive[:0]
    left = np.arange(-len(below), len(above), dtype=np.float64) * (width * group)
    return left, width * group, np.concatenate([below, above])


def _one_channel(stats: Counts) -> tuple[float, np.ndarray, np.ndarray]:
    """Bin width and both halves of `stats`, channels added at the widest channel's bins."""
    if stats.negative.ndim == 1:
        return float(np.asarray(stats.bin_width)), stats.negative, stats.positive
    widths = np.asarray(stats.bin_width, np.float64)
    widest = float(widths.max())
    halves = []
    for half in (stats.negative, stats.positive):
        # Widths are powers of two and edges nest, so a channel's bins add up to the widest one's exactly.
        rows = [
            _grouped(row, round(widest / width), half.shape[1])
            for row, width in zip(half, widths, strict=True)
        ]
        halves.append(np.sum(rows, axis=0))
    return widest, halves[0], halves[1]


def _grouped(counts: np.ndarray, group: int, bins: int) -> np.ndarray:
    """Sums of `group` neighbours of `counts`, cut or padded with zeros to `bins`."""
    padded = np.zeros(bins * group, np.int64)
    padded[: min(len(counts), len(padded))] = counts[: len(padded)]
    sums: np.ndarray = padded.reshape(bins, group).sum(axis=1)
    return sums


def _last_used(counts: np.ndarray) -> int:
    """Number of leading bins up to the last one that is not empty."""
    used = np.flatnonzero(counts)
    return int(used[-1]) + 1 if used.size else 0
