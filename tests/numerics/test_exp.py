"""Exponentials: accuracy and special values."""

from __future__ import annotations

import math

import numpy as np
import pytest

from intact import numerics

INF, NAN = math.inf, math.nan


def _grid(low: float, high: float, count: int) -> np.ndarray:
    """Even steps, and magnitudes down to the smallest."""
    even = np.linspace(low, high, count)
    small = 10.0 ** np.linspace(-38, 0, 400)
    return np.concatenate([even, small, -small]).astype(np.float32)


@pytest.mark.rule("N37")
def test_exp_is_within_two_ulp():
    x = _grid(-103.9, 88.72, 400_001)
    exact = np.exp(x.astype(np.float64))
    ulp = np.spacing(exact.astype(np.float32)).astype(np.float64)
    assert (np.abs(numerics.exp(x) - exact) / ulp).max() <= 2


def test_exp_of_whole_powers_and_at_the_ends_of_float32():
    x = np.array([0, -0.0, 88.72283, 88.72284, -87.33655, -103.97, -104, -104.1], np.float32)
    y = numerics.exp(x)
    assert y[0] == y[1] == 1
    assert y[2] == pytest.approx(math.exp(x[2]), rel=2e-7) and y[3] == INF
    assert 0 < y[4] < 1.18e-38
    assert y[5] == np.float32(1e-45) and y[6] == y[7] == 0
