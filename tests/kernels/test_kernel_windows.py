"""Windows of convolutions: sums in one order, whatever the machine, and what some places hold."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from intact import kernels
from intact.kernels import _native

CASES = [
    ((1, 3, 7), [[slice(0, 5), slice(2, 7)]]),
    ((2, 1, 1), [[slice(0, 1)]]),
    ((3, 2, 6, 5), [[slice(0, 6, 2), slice(1, 6, 2), slice(0)], [slice(0, 5), slice(1, 4, 3)]]),
    (
        (1, 2, 3, 4, 5),
        [[slice(0, 3), slice(1, 2)], [slice(0, 4, 3)], [slice(4, 5), slice(0, 5), slice(2, 4)]],
    ),
    ((1, 4, 300), [[slice(0, 300)]]),
]


@pytest.mark.parametrize("shape, taps", CASES, ids=[str(shape) for shape, _ in CASES])
def test_sums_are_added_in_the_order_of_plain_loops(shape: tuple[int, ...], taps: list[list[slice]]) -> None:
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    want = np.zeros((shape[1], *map(len, taps)))
    for channel in range(shape[1]):
        image = np.zeros(shape[2:])
        for sample in range(shape[0]):
            image = image + x[sample, channel]
        for place in product(*(range(len(seen)) for seen in taps)):
            left = image
            for axis, tap in enumerate(place):  # cumsum adds one after the other, which sum does not
                seen = left[taps[axis][tap]]
                left = np.cumsum(seen, axis=0)[-1] if len(seen) else np.zeros(left.shape[1:])
            want[channel, *place] = left
    assert np.array_equal(kernels.window_sums(x, taps), want)
    assert np.array_equal(kernels.window_sums(np.asfortranarray(x), taps), want)


def test_windows_hold_pixels_and_zeros_outside() -> None:
    x = np.random.default_rng(1).standard_normal((2, 6, 4, 5)).astype(np.float32)
    at = np.array([[0, 19, -1], [120, 139, 7], [-1, -1, 125]])
    flat = x.reshape(-1)
    for groups, channels in ((range(3), 2), (range(1, 3), 2), (range(4, 6), 1), (range(0), 3)):
        got = kernels.windows(x, at, groups, channels)
        assert got.shape == (len(groups), 3, channels * 3)
        for g, group in enumerate(groups):
            for place, channel in product(range(3), range(channels)):
                first = (group * channels + channel) * 20
                want = [0 if a < 0 else flat[a + first] for a in at[place]]
                assert got[g, place, channel * 3 : channel * 3 + 3].tolist() == want


def test_what_is_not_there_is_refused() -> None:
    x, out = np.zeros((2, 3, 4), np.float32), np.zeros((3, 1))
    for axes in ([(4, [(0, 5, 1)])], [(4, [(0, 4, 0)])], [(4, [])], [(5, [(0, 4, 1)])]):
        with pytest.raises(ValueError):
            _native.window_sums(x, 2, 3, axes, out)
    for at in (20, -2):  # the second sample's first channel has its last pixel at 15
        with pytest.raises(ValueError, match="places"):
            kernels.windows(x, np.array([[at]]), range(3), 1)
    with pytest.raises(ValueError, match="channels"):
        kernels.windows(x, np.array([[0]]), range(2, 9), 1)
