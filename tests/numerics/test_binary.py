"""Maximum, minimum and slopes below zero."""

from __future__ import annotations

import math

import numpy as np
import pytest

from intact import numerics

INF, NAN = math.inf, math.nan


@pytest.mark.rule("N49")
def test_extremes():
    a = np.array([1, 2, -0.0, 0.0, NAN, 1, NAN, INF, -INF], np.float32)
    b = np.array([2, 1, 0.0, -0.0, 1, NAN, NAN, 0, 0], np.float32)
    np.testing.assert_array_equal(numerics.maximum(a, b), np.maximum(a, b))
    np.testing.assert_array_equal(numerics.minimum(a, b), np.minimum(a, b))
    for function in (numerics.maximum, numerics.minimum):
        assert np.signbit(function(a, b)[2:4]).tolist() == [True, False]  # of equal numbers the first


@pytest.mark.rule("N48")
def test_slopes_below_zero():
    x = np.array([-INF, -3, -1e-45, -0.0, 0.0, 2, INF, NAN], np.float32)
    y = numerics.apply_slope(x, 0.1)
    np.testing.assert_array_equal(y, np.where(x < 0, x * np.float32(0.1), x))
    assert np.signbit(y[3]) and y[6] == INF and np.isnan(y[7])
    np.testing.assert_array_equal(numerics.apply_slope(-np.ones((2, 3)), [[2], [-0.5]])[:, 0], [-2, 0.5])
