"""Logarithms: accuracy and special values."""

from __future__ import annotations

import math

import numpy as np
import pytest

from intact import numerics

INF, NAN = math.inf, math.nan


@pytest.mark.rule("N38")
def test_log_is_within_one_ulp():
    whole = np.exp(np.linspace(-103, 88, 200_001))
    x = np.concatenate([whole, np.linspace(0.5, 2, 100_000), [1, 1e-45, 3.4e38]]).astype(np.float32)
    exact = np.log(x.astype(np.float64))
    ulp = np.spacing(np.abs(exact).astype(np.float32)).astype(np.float64)
    assert (np.abs(numerics.FUNCTIONS["log"](x) - exact) <= ulp).all()


def test_log_and_sqrt_where_they_end():
    x = np.array([0, -0.0, -1e-45, -INF, INF, NAN, 1], np.float32)
    np.testing.assert_array_equal(numerics.FUNCTIONS["log"](x), [-INF, -INF, NAN, NAN, INF, NAN, 0])
    np.testing.assert_array_equal(numerics.FUNCTIONS["sqrt"](x), [0, 0, NAN, NAN, INF, NAN, 1])
