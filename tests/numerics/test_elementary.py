"""The square root is correctly rounded."""

from __future__ import annotations

import numpy as np
import pytest

from intact import numerics


def _grid(low: float, high: float, count: int) -> np.ndarray:
    """Even steps, and magnitudes down to the smallest."""
    even = np.linspace(low, high, count)
    small = 10.0 ** np.linspace(-38, 0, 400)
    return np.concatenate([even, small, -small]).astype(np.float32)


@pytest.mark.rule("N38")
def test_sqrt_is_the_nearest_float():
    x = _grid(0, 1000, 100_001)
    x = x[x >= 0]
    np.testing.assert_array_equal(
        numerics.FUNCTIONS["sqrt"](x), np.sqrt(x.astype(np.float64)).astype(np.float32)
    )
