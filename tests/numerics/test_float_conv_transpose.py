"""Transposed convolutions of floats: each output is one chain over the taps that reach it."""

import numpy as np
import pytest

from intact import numerics
from intact.errors import QuantValueError


@pytest.mark.rule("N51")
@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize("kernel", [1, 2, 3, 4])
@pytest.mark.parametrize("dilation", [1, 2, 3])
@pytest.mark.parametrize("pad", [(0, 0), (1, 0), (2, 1)])
def test_an_output_takes_the_taps_that_reach_it(stride, kernel, dilation, pad):
    rng = np.random.default_rng(stride + kernel)
    x, w = (rng.standard_normal(s).astype(np.float32) for s in ((2, 3, 5), (4, 3, kernel)))
    start = rng.standard_normal(4).astype(np.float32)
    got = numerics.float_conv_transpose(
        x, w, start, stride=[stride], padding=[pad], dilation=[dilation], output_padding=[stride - 1]
    )
    for o in range(got.shape[2]):
        chain = np.tile(start, (2, 1))
        for tap in reversed(range(kernel)):
            at, rest = divmod(o + pad[0] - tap * dilation, stride)
            for c in range(3):
                if not rest and 0 <= at < 5:
                    chain = numerics.fma(x[:, c, at, None], w[None, :, c, tap], chain)
        np.testing.assert_array_equal(got[:, :, o], chain)


def test_groups_have_channels_of_their_own():
    rng = np.random.default_rng(0)
    x, w = (rng.standard_normal(s).astype(np.float32) for s in ((1, 4, 3, 4), (6, 2, 3, 2)))
    window = {"stride": [2, 1], "padding": [(1, 0), (0, 1)], "dilation": [1, 1], "output_padding": [0, 0]}
    got = numerics.float_conv_transpose(x, w, groups=2, **window)
    halves = [
        numerics.float_conv_transpose(x[:, 2 * i : 2 * i + 2], w[3 * i : 3 * i + 3], **window) for i in (0, 1)
    ]
    np.testing.assert_array_equal(got, np.concatenate(halves, 1))


def test_pads_have_to_leave_something():
    with pytest.raises(QuantValueError, match="pads that leave something"):
        numerics.float_conv_transpose(
            np.zeros((1, 1, 2), np.float32), np.zeros((1, 1, 1), np.float32),
            stride=[1], padding=[(2, 2)], dilation=[1], output_padding=[0],
        )  # fmt: skip
