"""Pools against exact rational arithmetic."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest
from tests.numerics.exact import code, exact, fl32

from intact import numerics as nx
from intact.spec import QuantSpec

S8, U8 = QuantSpec(), QuantSpec("uint8", symmetric=False)


def loop_avg_pool(x, kernel, stride, padding, include, ceil, s_x, z_x, s_y, z_y):
    """1-d only: one value at a time, in exact arithmetic."""
    size, out = x.shape[2], []
    room = size + 2 * padding - kernel
    count = (-(-room // stride) if ceil else room // stride) + 1
    if ceil and (count - 1) * stride >= size + padding:
        count -= 1
    for p in range(count):
        taps = [p * stride + t - padding for t in range(kernel)]
        real = [t for t in taps if 0 <= t < size]
        n = len([t for t in taps if -padding <= t < size + padding]) if include else len(real)
        total = sum(int(x[0, 0, t]) - z_x for t in real)
        mean = fl32(fl32(fl32(Fraction(total)) * exact(s_x)) / n)
        out.append(code(fl32(mean / exact(s_y)), z_y, 0, 255))
    return out


@pytest.mark.rule("N27")
@pytest.mark.parametrize("include", [False, True], ids=["exclude-pad", "include-pad"])
@pytest.mark.parametrize("ceil", [False, True], ids=["floor", "ceil"])
@pytest.mark.parametrize(("kernel", "stride", "padding"), [(3, 2, 1), (2, 2, 0), (3, 1, 1), (4, 3, 2)])
def test_avg_pool_equals_exact_evaluation(rng, kernel, stride, padding, ceil, include):
    x = rng.integers(0, 256, (1, 1, 8), np.uint8)
    got = nx.avg_pool(
        x,
        kernel,
        (0.05, 17),
        (0.04, 30),
        U8,
        stride=stride,
        padding=padding,
        ceil_mode=ceil,
        count_include_pad=include,
    )
    assert got[0, 0].tolist() == loop_avg_pool(
        x, kernel, stride, padding, include, ceil, np.float32(0.05), 17, np.float32(0.04), 30
    )


def test_global_average_pool():
    x = np.array([[[[1, 2], [3, 5]], [[0, 0], [0, 2]]]], np.int8)
    assert nx.avg_pool(x, (2, 2), (1.0, 0), (1.0, 0), S8).tolist() == [
        [[[3]], [[0]]]
    ]  # 2.75, and the tie 0.5


@pytest.mark.rule("N27")
def test_max_pool_takes_codes_and_padding_never_wins(rng):
    x = np.array([[[-128, -100, -90, -128, -128]]], np.int8)
    assert nx.max_pool(x, 3, stride=2, padding=1).tolist() == [[[-100, -90, -128]]]
    wide = rng.integers(-128, 128, (2, 3, 6, 7), np.int8)
    got = nx.max_pool(wide, (2, 3), stride=(2, 1), padding=((0, 1), (1, 0)), dilation=(1, 2))
    for n, c, i, j in np.ndindex(got.shape):
        taps = itertools.product((2 * i, 2 * i + 1), (j - 1, j + 1, j + 3))
        assert got[n, c, i, j] == max(wide[n, c, a, b] for a, b in taps if 0 <= a < 6 and 0 <= b < 7)


@pytest.mark.rule("N27")
def test_max_pool_of_floats_keeps_what_is_no_number(rng):
    x = rng.standard_normal((1, 2, 4, 4)).astype(np.float32)
    x[0, 0, 0, 0], x[0, 1] = np.nan, -np.inf
    y = nx.float_max_pool(x, 2)
    blocks = x.reshape(1, 2, 2, 2, 2, 2).max(axis=(3, 5))
    np.testing.assert_array_equal(y, blocks)
    padded = nx.float_max_pool(-np.ones((1, 1, 3, 3), np.float32), 3, padding=1)
    assert (padded == -1).all()


@pytest.mark.rule("N27")
def test_max_pool_ceil_mode_drops_a_window_that_starts_in_the_padding_behind():
    x = np.arange(4, dtype=np.int8).reshape(1, 1, 4)
    assert nx.max_pool(x, 3, stride=2, ceil_mode=True).tolist() == [[[2, 3]]]
    assert nx.max_pool(x, 2, stride=2, padding=1, ceil_mode=True).tolist() == [[[0, 2, 3]]]
    assert nx.max_pool(x[..., :3], 1, stride=2, padding=0, ceil_mode=True).tolist() == [[[0, 2]]]
    assert nx.max_pool(x[..., :2], 1, stride=2, ceil_mode=True).tolist() == [[[0]]]
    assert nx.max_pool(x[..., :2], 3, stride=2, ceil_mode=True).tolist() == [
        [[1]]
    ]  # it overhangs, as in ONNX


def test_a_float_max_pool_of_no_images_has_none():
    output = nx.float_max_pool(np.zeros((0, 3, 6, 5), np.float32), (2, 2), stride=(2, 2))
    assert output.shape == (0, 3, 3, 2) and output.dtype == np.float32
