"""Integer sums of convolutions against Python integers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import strategies as st

from intact import numerics as nx

sums = st.integers(-(2**31) + 1, 2**31 - 1) | st.integers(-3000, 3000)


def loop_conv(x, w, z_x, z_w, bias, stride, padding, dilation, groups):
    sizes, kernel = x.shape[2:], w.shape[2:]
    places = [
        (size + sum(pads) - (k - 1) * d - 1) // s + 1
        for size, k, s, pads, d in zip(sizes, kernel, stride, padding, dilation, strict=True)
    ]
    out = np.zeros((x.shape[0], w.shape[0], *places), object)
    for n, o, *p in np.ndindex(out.shape):
        first = o // (w.shape[0] // groups) * w.shape[1]
        total = int(bias[o])
        for c, *t in np.ndindex(w.shape[1:]):
            at = [
                i * s + j * d - pads[0]
                for i, j, s, d, pads in zip(p, t, stride, dilation, padding, strict=True)
            ]
            if all(0 <= a < size for a, size in zip(at, sizes, strict=True)):
                total += (int(x[(n, first + c, *at)]) - z_x) * (int(w[(o, c, *t)]) - int(z_w[o]))
        out[(n, o, *p)] = total
    return out


@pytest.mark.rule("N19", "N30", "N32")
@pytest.mark.parametrize(
    ("sizes", "kernel", "groups", "options"),
    [
        pytest.param((9,), (3,), 1, {}, id="1d"),
        pytest.param((9,), (2,), 2, {"stride": (2,), "padding": ((0, 1),)}, id="1d-groups-uneven-padding"),
        pytest.param((5, 6), (3, 3), 1, {"padding": ((1, 1), (1, 1))}, id="2d-same"),
        pytest.param((5, 6), (1, 1), 1, {"stride": (2, 2)}, id="2d-pointwise-stride2"),
        pytest.param((5, 6), (3, 2), 4, {"padding": ((1, 0), (0, 2))}, id="2d-depthwise"),
        pytest.param(
            (7, 6),
            (2, 3),
            2,
            {"stride": (2, 1), "dilation": (2, 2), "padding": ((2, 2), (1, 1))},
            id="2d-all",
        ),
        pytest.param((3, 4, 3), (2, 2, 2), 2, {"stride": (1, 2, 1), "dilation": (1, 1, 2)}, id="3d"),
    ],
)
def test_conv_equals_python_integers(rng, sizes, kernel, groups, options):
    rank = len(sizes)
    full = {"stride": (1,) * rank, "padding": ((0, 0),) * rank, "dilation": (1,) * rank} | options
    x = rng.integers(-128, 128, (2, 4, *sizes), np.int8)
    w = rng.integers(-128, 128, (4, 4 // groups, *kernel), np.int8)
    z_w, bias = np.array([0, 3, -4, 0]), rng.integers(-1000, 1000, 4, np.int32)
    want = loop_conv(x, w, -9, z_w, bias, **full, groups=groups)
    got = nx.conv(x, w, -9, z_w, bias, **options, groups=groups)
    assert got.shape == want.shape
    assert (got == want).all()


def test_conv_shorthands_and_empty_batch(rng):
    x, w = rng.integers(0, 256, (1, 2, 5, 5), np.uint8), rng.integers(-127, 128, (3, 2, 3, 3), np.int8)
    spelled = nx.conv(x, w, 4, stride=(2, 2), padding=((1, 1), (1, 1)), dilation=(1, 1))
    assert (nx.conv(x, w, 4, stride=2, padding=1) == spelled).all()
    assert (nx.conv(x, w, 4, stride=[2, 2], padding=[1, 1]) == spelled).all()
    assert nx.conv(x[:0], w, 4, stride=2, padding=1).shape == (0, 3, 3, 3)


@pytest.mark.rule("N19")
def test_padding_reads_real_zero():
    """An input that is real 0 everywhere sums to 0 everywhere, borders included."""
    acc = nx.conv(np.full((1, 1, 3, 3), 128, np.uint8), np.full((1, 1, 3, 3), 5, np.int8), 128, padding=1)
    assert (acc == 0).all()
