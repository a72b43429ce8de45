"""Squared errors from prefix sums are those of quantizing the middle of every bin."""

from __future__ import annotations

import numpy as np
import pytest

from intact.calib.range_search import AffineErrors, best_affine, symmetric_errors
from intact.spec import QuantSpec

BINS = 300


@pytest.fixture
def counts(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Of positive and of negative values: many small ones, and a few that lie far out."""
    positive, negative = (
        np.histogram(rng.exponential(40, 5000), BINS, (0, BINS))[0].astype(np.int64) for _ in range(2)
    )
    negative[200:] = 0
    return positive, negative


def on_middles(
    halves: tuple[np.ndarray, np.ndarray], spec: QuantSpec, scale: float, zero_point: int
) -> float:
    """The summed squared error, in bin widths squared; the first bins count as 0."""
    middles = np.arange(BINS) + 0.5
    middles[0] = 0
    total = 0.0
    for counted, x in zip(halves, (middles, -middles), strict=True):
        codes = np.clip(np.rint(x / scale) + zero_point, int(spec.qmin), int(spec.qmax))
        total += float((counted * (x - scale * (codes - zero_point)) ** 2).sum())
    return total


@pytest.mark.parametrize(
    "spec", [QuantSpec("uint8", symmetric=False), QuantSpec("int4", symmetric=False)], ids=str
)
def test_with_a_zero_point(counts, spec, rng):
    scales = rng.uniform(0.01, 60, 40)
    zero_points = rng.integers(int(spec.qmin), int(spec.qmax) + 1, 40).astype(np.int32)
    result = AffineErrors(*counts, spec)(scales, zero_points)
    want = [on_middles(counts, spec, s, int(z)) for s, z in zip(scales, zero_points, strict=True)]
    np.testing.assert_allclose(result, want, rtol=1e-9)


@pytest.mark.parametrize("spec", [QuantSpec("int8"), QuantSpec("int4"), QuantSpec("uint8")], ids=str)
def test_without_a_zero_point(counts, spec, rng):
    scales = rng.uniform(0.01, 60, 40)
    halves = counts if spec.qmin < 0 else (counts[0], np.zeros_like(counts[1]))
    result = symmetric_errors(*halves, spec, scales)
    np.testing.assert_allclose(result, [on_middles(halves, spec, s, 0) for s in scales], rtol=1e-9)


def test_a_candidate_does_not_depend_on_those_beside_it(counts, rng):
    errors = AffineErrors(*counts, QuantSpec("uint8", symmetric=False))
    scales, zero_points = rng.uniform(0.1, 3, 33), rng.integers(0, 256, 33).astype(np.int32)
    together = errors(scales, zero_points)
    assert together.tolist() == [errors(scales[i : i + 1], zero_points[i : i + 1])[0] for i in range(33)]


def test_the_search_ends_within_the_ends(counts):
    ends = np.array([200.0, 300.0])
    below, above = best_affine(*counts, QuantSpec("int4", symmetric=False), 1.0, ends)
    assert 0 < below <= 200 and 0 < above <= 300
