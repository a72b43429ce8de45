"""Softmax: the formula bit for bit, and its accuracy."""

from __future__ import annotations

import numpy as np
import pytest
from tests.numerics.exact import sum_in_lanes

from intact import numerics
from intact.numerics.floats.exp import LOG2_E, exp2

F32 = np.float32


def _reals(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(0, 3, shape).astype(F32)


@pytest.mark.rule("N40")
@pytest.mark.parametrize("n", [1, 5, 16, 40])
@pytest.mark.parametrize("masked", [False, True], ids=["bare", "masked"])
def test_softmax_is_the_formula(n, masked):
    x, mask, gain = _reals(n), _reals(n, seed=1) if masked else np.zeros(n, F32), F32(0.125)
    v = [a * gain + m for a, m in zip(x, mask, strict=True)]
    e = [exp2(np.asarray((value - max(v)) * LOG2_E))[()] for value in v]
    inverse = F32(1) / sum_in_lanes(e)
    got = numerics.softmax(x, gain=0.125, mask=mask if masked else None)
    assert got.tolist() == [value * inverse for value in e]


@pytest.mark.rule("N40")
def test_softmax_accuracy():
    x = _reals(50, 128)
    e = np.exp(x.astype(np.float64) - x.max(axis=-1, keepdims=True))
    # x - max(x) reaches 20 here, and its rounding alone moves e by 1e-6 of its size
    np.testing.assert_allclose(numerics.softmax(x), e / e.sum(axis=-1, keepdims=True), rtol=2e-6)


@pytest.mark.parametrize("axis", [0, 1, -2, 2])
def test_softmax_along_any_axis(axis):
    x = _reals(3, 4, 5)
    want = np.moveaxis(numerics.softmax(np.moveaxis(x, axis, -1)), -1, axis)
    np.testing.assert_array_equal(numerics.softmax(x, axis), want)


def test_softmax_hides_what_the_mask_says():
    mask = np.where(np.arange(20) < 12, 0, -np.inf).astype(F32)
    y = numerics.softmax(_reals(2, 20), mask=mask)
    assert (y[:, 12:] == 0).all()
    np.testing.assert_allclose(y.astype(np.float64).sum(axis=-1), 1, rtol=1e-6)


def test_softmax_of_nothing_finite_is_nan():
    assert np.isnan(numerics.softmax(np.full((1, 3), -np.inf, F32))).all()
    assert numerics.softmax(np.zeros((2, 0), F32)).shape == (2, 0)
