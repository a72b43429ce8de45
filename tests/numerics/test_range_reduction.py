"""Sines and cosines of angles of any size."""

from __future__ import annotations

import math

import numpy as np
import pytest

from intact import numerics

INF, NAN = math.inf, math.nan


@pytest.mark.rule("N38")
@pytest.mark.parametrize("name", ["sin", "cos"])
def test_angles_of_any_size(name):
    """Next to quarters of a turn, where float32 has no fractions any more, and at the end of it."""
    rng = np.random.default_rng(0)
    quarters = np.arange(-50_000, 50_000) * (math.pi / 2)
    sizes = rng.uniform(1, 2, 50_000) * 2.0 ** rng.integers(-20, 128, 50_000)
    ends = [65535.996, 65536, 65536.01, 3.4e38, 2.0**127, 1e-45, 0]
    x = np.concatenate([quarters, sizes, ends]).astype(np.float32)
    exact = np.array([getattr(math, name)(angle) for angle in x.astype(np.float64)])
    assert (np.abs(numerics.FUNCTIONS[name](x) - exact) <= 1.2e-7).all()
    assert np.isnan(numerics.FUNCTIONS[name](np.float32([INF, -INF, NAN]))).all()
