from __future__ import annotations

import numpy as np
import pytest

from intact.calib import Histogram, amax_of, expected_sqnr
from intact.report import curve, panel
from intact.report.histogram_panel import PLOTTED_BINS
from intact.spec import QuantSpec


def collect(x: np.ndarray, axis: int | None = None) -> Histogram:
    stats = Histogram(axis)
    stats.collect(x)
    return stats


@pytest.mark.parametrize("size", [1, 7, 5000])
def test_every_value_is_in_the_curve_once_and_in_its_bin(rng: np.random.Generator, size: int) -> None:
    x = rng.standard_normal(size).astype(np.float32)
    left, width, counts = curve(collect(x))
    assert counts.sum() == size
    assert len(left) <= 2 * PLOTTED_BINS
    # |x| is binned, so the edge of a negative bin belongs to the bin farther from zero.
    inside = [((x >= a) & (x < a + width) if a >= 0 else (x > a) & (x <= a + width)).sum() for a in left]
    np.testing.assert_array_equal(counts, inside)


def test_a_tensor_without_negative_values_has_no_negative_axis(rng: np.random.Generator) -> None:
    left, _, counts = curve(collect(rng.uniform(0, 3, 500).astype(np.float32)))
    assert left[0] == 0
    assert counts.sum() == 500


def test_channels_of_different_ranges_add_up_to_the_whole_tensor(rng: np.random.Generator) -> None:
    x = rng.standard_normal((3, 400)).astype(np.float32) * np.float32([[1], [30], [0.01]])
    for got, want in zip(curve(collect(x, axis=0)), curve(collect(x)), strict=True):
        np.testing.assert_array_equal(got, want)


def test_nothing_collected_is_an_empty_curve() -> None:
    left, _, counts = curve(Histogram())
    assert len(left) == len(counts) == 0


def test_a_panel_shows_what_calib_says(rng: np.random.Generator) -> None:
    stats, spec = collect(rng.standard_normal(4000).astype(np.float32)), QuantSpec("int8")
    shown = panel("conv1", stats, spec, {"max": {}, "percentile": {"percentile": 99.0}}, chosen="max")
    amax = float(amax_of(stats, spec, "percentile", percentile=99.0))
    assert shown.ranges == {"max": (-float(stats.amax), float(stats.amax)), "percentile": (-amax, amax)}
    assert shown.sqnr["max"] == expected_sqnr(stats, spec, stats.amax)
    assert shown.facts is not None and shown.facts["values"] == "4,000"


def test_a_per_channel_panel_shows_the_widest_channel(rng: np.random.Generator) -> None:
    x = rng.standard_normal((3, 400)).astype(np.float32) * np.float32([[1], [30], [0.01]])
    shown = panel("conv1", collect(x, axis=0), QuantSpec("int8", axis=0), {"max": {}})
    assert shown.ranges["max"] == (-float(np.abs(x).max()), float(np.abs(x).max()))
