"""Statistics of calibration: magnitudes, ends, and histogram bins."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from intact import numerics as nx
from intact.errors import QuantValueError

values = st.floats(width=32, allow_nan=True, allow_infinity=True)
vectors = hnp.arrays(np.float32, st.integers(0, 40), elements=values)


@pytest.mark.rule("N10")
@pytest.mark.parametrize("axis", [None, 0, 1, -1, (0, 2), (0, 1, 2)], ids=str)
def test_absmax_and_minmax_of_each_granule(axis, rng):
    x = rng.standard_normal((2, 3, 4)).astype(np.float32)
    kept_axes = (
        () if axis is None else tuple(sorted(a % 3 for a in ((axis,) if isinstance(axis, int) else axis)))
    )
    amax, (low, high) = nx.absmax(x, axis), nx.minmax(x, axis)
    assert amax.shape == low.shape == high.shape == tuple(x.shape[a] for a in kept_axes)
    for granule in np.ndindex(amax.shape):
        picked = [slice(None)] * 3
        for a, i in zip(kept_axes, granule, strict=True):
            picked[a] = i
        part = x[tuple(picked)]
        assert (amax[granule], low[granule], high[granule]) == (abs(part).max(), part.min(), part.max())


def test_nothing_is_the_identity_of_a_merge():
    assert nx.absmax([]) == 0
    assert nx.minmax([]) == (math.inf, -math.inf)
    assert nx.absmax(np.zeros((0, 2)), 1).tolist() == [0, 0]
    assert all(isinstance(v, np.ndarray) for v in (nx.absmax(3.0), *nx.minmax(3.0)))


@pytest.mark.parametrize("zeros", [[0.0, -0.0], [-0.0, 0.0], [-0.0]], ids=str)
def test_zeros_come_out_positive_whatever_the_order(zeros):
    assert not np.signbit([*nx.minmax(zeros), nx.absmax(zeros)]).any()


def test_nan_is_seen():
    x = np.float32([[1, np.nan], [2, 3]])
    assert np.isnan(nx.absmax(x))
    assert np.isnan(nx.absmax(x, 0)).tolist() == [True, False]
    assert np.isnan(nx.minmax(x, 1)[0]).tolist() == [False, True]


@pytest.mark.rule("N10")
@given(vectors, st.integers(-140, 100), st.integers(1, 64))
def test_count_pow2_is_the_floor_of_the_exact_quotient(x, exponent, bins):
    negative, positive = [0] * bins, [0] * bins
    for v in x.tolist():
        if math.isfinite(v) and (index := math.floor(abs(v) / 2.0**exponent)) < bins:
            (negative if v < 0 else positive)[index] += 1
    got = nx.count_pow2(x, exponent, bins)
    assert [g.tolist() for g in got] == [negative, positive]
    assert [g.dtype for g in got] == [np.int64, np.int64]


@pytest.mark.rule("N10")
@given(vectors, st.integers(-60, 60))
def test_pow2_bins_nest(x, exponent):
    for fine, coarse in zip(nx.count_pow2(x, exponent, 64), nx.count_pow2(x, exponent + 1, 32), strict=True):
        assert (fine.reshape(32, 2).sum(axis=1) == coarse).all()


@pytest.mark.rule("N10")
@given(vectors, st.floats(2.0**-10, 2.0**10, width=32), st.integers(1, 64))
def test_count_fixed_is_the_floor_of_the_float32_quotient(x, width, bins):
    want = [0] * bins
    for v in x:
        if not np.isnan(v):
            with np.errstate(over="ignore"):
                want[int(min(np.floor(abs(v) / np.float32(width)), bins - 1))] += 1
    assert nx.count_fixed(x, width, bins).tolist() == want


@pytest.mark.parametrize("width", [0.0, -1.0, math.nan, math.inf, 1e-60])
def test_width_must_be_positive(width):
    with pytest.raises(QuantValueError) as caught:
        nx.count_fixed([1.0], width, 4)
    assert str(caught.value) == (
        f"width: got {width}, want a positive finite float32. "
        "Fix: give the histogram a range that is not zero"
    )
