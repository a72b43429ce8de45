"""Convolutions of dynamic codes are the sums of N19, scaled by single float32 operations."""

from __future__ import annotations

import numpy as np
import pytest
from tests.numerics.exact import exact, fl32

from intact import numerics as nx


@pytest.mark.rule("N73")
def test_the_formula_in_rationals() -> None:
    rng = np.random.default_rng(0)
    x = rng.integers(0, 256, (2, 4, 5, 6)).astype(np.uint8)
    w = rng.integers(-128, 128, (6, 2, 3, 2)).astype(np.int8)
    scales, bias = rng.uniform(1e-3, 1e-2, 6).astype(np.float32), rng.normal(0, 1, 6).astype(np.float32)
    x_scale, zero, zeros = np.float32(0.0173), 117, rng.integers(-128, 128, 6).astype(np.int8)
    window = {"stride": 2, "padding": ((1, 0), (2, 1)), "dilation": (1, 2), "groups": 2}
    got = nx.dynamic_conv(x, x_scale, zero, w, scales, zeros, bias, **window)
    acc = nx.conv(x, w, zero, zeros, **window)
    for at in np.ndindex(got.shape):
        scale = fl32(exact(x_scale) * exact(scales[at[1]]))
        real = fl32(exact(np.float32(int(acc[at]))) * exact(scale))
        assert got[at] == fl32(exact(real) + exact(bias[at[1]]))


@pytest.mark.rule("N73")
def test_padding_is_real_zero_and_sums_of_nothing_are_plus_zero() -> None:
    x, w = np.full((1, 1, 1, 1), 9, np.uint8), np.full((1, 1, 3, 3), 77, np.int8)
    y = nx.dynamic_conv(x, np.float32(-0.5), 9, w, np.float32(1), padding=1)
    np.testing.assert_array_equal(y, np.zeros((1, 1, 1, 1), np.float32))
    assert not np.signbit(y).any()
