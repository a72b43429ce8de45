"""Integer sums of a product of activations against Python integers."""

from __future__ import annotations

import numpy as np
import pytest

from intact import numerics as nx


@pytest.mark.rule("N19")
def test_matmul_subtracts_both_zero_points(rng):
    a = rng.integers(0, 256, (2, 1, 3, 5), np.uint8)
    b = rng.integers(-128, 128, (4, 5, 2), np.int8)
    got = nx.matmul(a, b, 7, -3)
    assert got.shape == (2, 4, 3, 2)
    for i, j, r, c in np.ndindex(got.shape):
        assert got[i, j, r, c] == sum((int(a[i, 0, r, k]) - 7) * (int(b[j, k, c]) + 3) for k in range(5))
