"""Halves of the hold-out samples, each with the statistics of all data but this half.

A range that was chosen with a sample in view says little of samples to come: 55.8 dB were measured so where
unseen inputs had 31.6. So each half is measured with ranges of the data without it. Histograms count, and
counts can be taken off. Those of large samples are kept from calibration; for others and for tensors that
were changed since, that costs one run of the float model for each sample of the halves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import repeat

from numpy.typing import ArrayLike

from intact.calib import Calibration, Histogram, Stats
from intact.graph import Model
from intact.ptq.data.parallel_runs import THREADS
from intact.ptq.measure.holdout_samples import HALVES_MOST, HoldoutSample, halves_of
from intact.ptq.measure.layer_inputs import read_layer_inputs


@dataclass(frozen=True, eq=False)
class HoldoutHalf:
    """Holds samples with the statistics of data that they are no part of.

    Attributes:
        runs: The samples.
        calibration: The statistics of all other data, by tensor.
    """

    runs: tuple[HoldoutSample, ...]
    calibration: Calibration


def holdout_halves(
    model: Model, calibration: Calibration, tensors: Sequence[str], runs: Sequence[HoldoutSample],
    *, has_run: bool,
) -> tuple[HoldoutHalf, ...]:  # fmt: skip
    """Return two halves of `runs`, or none where there are too few of them.

    Statistics that are no histograms are given, not counted: they stay. So do those of tensors that come in
    one half alone, and of smoothed tensors, which are counted on few samples, unless the halves are all data.

    Args:
        model: The float model.
        calibration: The statistics of all data.
        tensors: The names of those that are quantized.
        runs: The hold-out samples.
        has_run: The inner tensors that they hold are those of `model`.
    """
    halves = halves_of(runs[:HALVES_MOST])
    names = [name for name in tensors if isinstance(calibration[name], Histogram)]
    if not all(halves) or not names:
        return ()
    samples = [*halves[0], *halves[1]]
    counts_of_samples = [sample.counts if has_run else {} for sample in samples]
    missing = [name for name in names if not all(name in counts for counts in counts_of_samples)]
    readers = {name: {name: _histogram_of} for name in missing}
    counted = read_layer_inputs(model, samples, readers, has_run=has_run) if missing else repeat(({},))
    counts: tuple[dict[str, Histogram], ...] = ({}, {})
    for number, (kept_counts, (histograms,)) in enumerate(zip(counts_of_samples, counted, strict=False)):
        of_half = counts[number >= len(halves[0])]
        for name in names:
            histogram = histograms.get(name, kept_counts.get(name))
            if histogram is not None and histogram.count:
                of_half.setdefault(name, Histogram(nonfinite="count")).merge(histogram)
    is_all = any(
        calibration[name].count == sum(half[name].count for half in counts if name in half) for name in names
    )
    return tuple(
        HoldoutHalf(
            tuple(half),
            Calibration({n: _rest_of(calibration[n], ours.get(n), theirs.get(n), is_all) for n in tensors}),
        )
        for half, ours, theirs in zip(halves, counts, counts[::-1], strict=True)
    )


def _histogram_of(array: ArrayLike) -> Histogram:
    histogram = Histogram(nonfinite="count")
    histogram.collect(array, threads=THREADS)
    return histogram


def _rest_of(whole: Stats, ours: Histogram | None, theirs: Histogram | None, is_all: bool) -> Stats:
    """Return the statistics of all data without `ours`; of `theirs` where both are all data."""
    if not isinstance(whole, Histogram) or ours is None or theirs is None:
        return whole
    rest = whole.without(ours)
    if rest is None:
        return theirs if is_all else whole
    return rest if rest.count else whole
