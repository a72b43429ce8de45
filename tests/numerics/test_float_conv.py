"""Convolutions of floats against products of patches."""

from __future__ import annotations

import numpy as np
import pytest

from intact import numerics


@pytest.mark.rule("N51")
@pytest.mark.parametrize("sizes", [(9,), (6, 7), (3, 4, 5)], ids=len)
@pytest.mark.parametrize("groups", [1, 2])
def test_conv_is_the_product_of_patches_channels_last(sizes, groups):
    rng = np.random.default_rng(2)
    rank, out, depth = len(sizes), 6, 2
    x = rng.standard_normal((2, depth * groups, *sizes)).astype(np.float32)
    w = rng.standard_normal((out, depth, *[2] * rank)).astype(np.float32)
    start, pads = rng.standard_normal(out).astype(np.float32), ((1, 0), (2, 1), (0, 1))[:rank]
    step = {"stride": 2, "dilation": 2}
    y = numerics.float_conv(x, w, start, padding=pads, groups=groups, **step)
    padded = np.pad(x, ((0, 0), (0, 0), *pads))
    for at in np.ndindex(y.shape):
        n, o, *position = at
        taps = tuple(slice(2 * p, 2 * p + 3, 2) for p in position)
        group = o // (out // groups) * depth
        patch = np.moveaxis(padded[(n, slice(group, group + depth), *taps)], 0, -1).reshape(1, -1)
        column = np.moveaxis(w[o], 0, -1).reshape(-1, 1)
        assert numerics.float_product(patch, column, start[o : o + 1]) == y[at]


@pytest.mark.rule("N51")
def test_padding_is_plus_zero_and_is_multiplied():
    w = np.full((1, 1, 3), np.inf, np.float32)
    y = numerics.float_conv(np.ones((1, 1, 3), np.float32), w, padding=1)
    assert np.isnan(y[0, 0, [0, 2]]).all() and y[0, 0, 1] == np.inf
