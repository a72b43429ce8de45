"""`amax_from_counts` against pytorch_quantization's definitions, written as plain loops."""

import numpy as np
import pytest

from intact import numerics
from intact.calib import amax_from_counts
from intact.spec import QuantSpec


def histogram(rng, bins=300):
    x = np.abs(rng.standard_normal(20_000)).astype(np.float32)
    width = float(np.float32(x.max()) / bins)
    return numerics.count_fixed(x, width, bins), width


@pytest.mark.parametrize(
    ("bits", "unsigned", "fmt"),
    [(8, False, "int8"), (8, True, "uint8"), (4, False, "int4"), ((4, 3), False, "fp8e4m3")],
    ids=["int8", "uint8", "int4", "fp8"],
)
@pytest.mark.parametrize(("start_bin", "stride"), [(128, 1), (40, 5)], ids=["default", "stride5"])
def test_mse_is_the_first_best_middle(bits, unsigned, fmt, start_bin, stride, rng):
    counts, width = histogram(rng)
    spec = QuantSpec(fmt)
    middles = (np.arange(len(counts)) + 0.5) * width
    candidates = middles[start_bin::stride]
    errors = []
    for amax in candidates:
        scale = numerics.scale_from_amax(amax, spec)
        lost = middles - numerics.fake_quantize(middles, scale, 0, spec)
        errors.append((counts * lost**2).sum())
    result = amax_from_counts(counts, width, bits, unsigned, "mse", start_bin=start_bin, stride=stride)
    assert result == candidates[np.argmin(errors)]


@pytest.mark.parametrize("percentile", [0, 50, 99, 99.99, 100])
def test_percentile_is_the_lower_edge_of_the_bin_that_reaches_it(percentile, rng):
    counts, width = histogram(rng)
    below = 0
    for index, count in enumerate(counts):  # noqa: B007
        below += count
        if below / counts.sum() >= percentile / 100:
            break
    assert amax_from_counts(counts, width, 8, False, "percentile", percentile=percentile) == index * width


def test_entropy_and_max_are_edges(rng):
    counts, width = histogram(rng)
    edge = amax_from_counts(counts, width, 8, False, "entropy") / width
    assert edge == pytest.approx(round(edge)) and 128 <= edge <= len(counts)
    middle = amax_from_counts(counts, width, 8, False, "entropy", variant="gtc2017") / width
    assert middle % 1 == pytest.approx(0.5)
    assert amax_from_counts([1, 1, 0, 0], 0.5, 8, False, "max") == 1.0


def test_without_candidates_the_last_edge(rng):
    for method in ("mse", "entropy"):
        assert amax_from_counts([1, 2, 3], 0.5, 8, False, method) == 1.5


def test_a_histogram_of_zeros_has_width_0():
    for method in ("max", "percentile", "mse", "entropy"):
        assert amax_from_counts([5] + 299 * [0], 0.0, 8, False, method) == 0


def test_counts_are_not_changed(rng):
    counts, width = histogram(rng)
    before = counts.copy()
    for method in ("max", "percentile", "mse", "entropy"):
        amax_from_counts(counts, width, 8, False, method)
    assert (counts == before).all()


def test_counts_beyond_float32_stay_exact():
    counts = np.full(200, 2**40, np.int64)
    counts[-1] += 1
    assert amax_from_counts(counts.astype(np.float64), 1.0, 8, False, "percentile", percentile=100) == 199.0
