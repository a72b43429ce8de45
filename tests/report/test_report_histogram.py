from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from intact import numerics
from intact.report import curve
from intact.report.histogram import PLOTTED_BINS


def counted(x: np.ndarray, exponent: int, bins: int = 4096) -> SimpleNamespace:
    negative, positive = numerics.count_pow2(x, exponent, bins)
    return SimpleNamespace(negative=negative, positive=positive, bin_width=2.0**exponent)


def test_every_value_is_in_the_curve_once_and_in_its_bin(rng: np.random.Generator) -> None:
    x = rng.standard_normal(5000).astype(np.float32)
    left, width, counts = curve(counted(x, -8))
    assert counts.sum() == x.size
    assert len(left) <= 2 * PLOTTED_BINS
    # |x| is binned, so the edge of a negative bin belongs to the bin farther from zero.
    inside = [((x >= a) & (x < a + width) if a >= 0 else (x > a) & (x <= a + width)).sum() for a in left]
    np.testing.assert_array_equal(counts, inside)


def test_a_tensor_without_negative_values_has_no_negative_axis(rng: np.random.Generator) -> None:
    left, _, counts = curve(counted(np.abs(rng.standard_normal(500)).astype(np.float32), -6))
    assert left[0] == 0
    assert counts.sum() == 500


def test_channels_of_different_bin_widths_add_up_exactly(rng: np.random.Generator) -> None:
    rows = [rng.uniform(-1, 1, 300).astype(np.float32), rng.uniform(-4, 4, 300).astype(np.float32)]
    single = [counted(row, exponent, 64) for row, exponent in zip(rows, (-5, -3), strict=True)]
    stats = SimpleNamespace(
        negative=np.stack([s.negative for s in single]),
        positive=np.stack([s.positive for s in single]),
        bin_width=np.array([s.bin_width for s in single]),
    )
    left, width, counts = curve(stats)
    want_left, want_width, want = curve(counted(np.concatenate(rows), -3, 64))
    assert width == want_width
    np.testing.assert_array_equal(left, want_left)
    np.testing.assert_array_equal(counts, want)


@pytest.mark.parametrize("bins", [1, 64], ids=["one-bin", "many-bins"])
def test_nothing_collected_is_one_empty_stretch(bins: int) -> None:
    left, _, counts = curve(counted(np.zeros(0, np.float32), 0, bins))
    assert len(left) == len(counts) == 0
