"""Weighted sums along an axis against a loop in Python."""

from __future__ import annotations

import numpy as np
import pytest

from intact.numerics.resize import interpolate


@pytest.mark.rule("N57")
def test_values_between_elements_are_sums_of_rounded_products():
    x = np.float32([[1, 10], [2**24, 20], [3, 30]])
    places, weights = np.array([[0, 1], [2, 1], [1, 0]]), np.float32([[1, 1], [0.5, 0.25], [0.1, 0.3]])
    want = [[w[0] * x[p[0]] + w[1] * x[p[1]] for p, w in zip(places, weights, strict=True)]]
    got = interpolate(x, 0, places, weights)
    assert got[0, 0] == 2**24, "1 is lost beside it"
    np.testing.assert_array_equal(got, want[0], strict=True)
