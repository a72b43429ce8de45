"""Sums and extremes along axes: the order of additions bit for bit."""

from __future__ import annotations

import numpy as np
import pytest
from tests.numerics.exact import sum_in_lanes

from intact import numerics
from intact.errors import QuantValueError

F32 = np.float32


def _reals(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(0, 3, shape).astype(F32)


@pytest.mark.rule("N39")
@pytest.mark.parametrize("n", [0, 1, 7, 15, 16, 17, 33, 100, 768])
def test_lane_sum_has_one_order(n):
    x = _reals(3, n, seed=n)
    assert numerics.lane_sum(x).tolist() == [sum_in_lanes(list(row)) for row in x]


def test_lane_sum_of_minus_zeros_is_zero():
    assert not np.signbit(numerics.lane_sum(np.full((1, 16), -0.0, F32))).any()


@pytest.mark.rule("N50")
@pytest.mark.parametrize("axes", [(-1,), (0,), (1, 2), (2, 0), (0, 1, 2), ()], ids=str)
def test_sums_and_means_along_axes(axes):
    x = _reals(3, 5, 9)
    inner = sorted(axis % 3 for axis in axes)
    rows = np.moveaxis(x, inner, range(3 - len(inner), 3)).reshape(*np.delete(x.shape, inner), -1)
    sums = np.array([sum_in_lanes(list(row)) for row in rows.reshape(-1, rows.shape[-1])]).reshape(
        rows.shape[:-1]
    )
    np.testing.assert_array_equal(numerics.sum_over(x, axes), sums)
    np.testing.assert_array_equal(numerics.mean_over(x, axes), sums / F32(rows.shape[-1]))
    with_axes = numerics.mean_over(x, axes, keepdims=True)
    assert with_axes.shape == tuple(1 if axis in inner else n for axis, n in enumerate(x.shape))
    np.testing.assert_array_equal(with_axes.reshape(sums.shape), numerics.mean_over(x, axes))


@pytest.mark.rule("N50")
@pytest.mark.parametrize("axes", [(-1,), (0,), (1, 2), (0, 1, 2), ()], ids=str)
def test_extremes_along_axes(axes):
    x = _reals(3, 5, 9)
    x[0, 0, 0], x[1, 2] = np.nan, -0.0
    for function, plain in ((numerics.max_over, np.max), (numerics.min_over, np.min)):
        want = plain(x, axes, keepdims=True) + F32(0)
        np.testing.assert_array_equal(function(x, axes, keepdims=True), want)
        assert not np.signbit(function(x, axes)[function(x, axes) == 0]).any()
        assert function(np.zeros((0, 2), F32), (0,)).tolist() == [function(np.zeros((0,), F32), (0,))] * 2
    assert numerics.max_over(np.zeros((0,), F32), (0,)) == -np.inf


@pytest.mark.parametrize("axes", [(2,), (-3,), (0, 0), (0, -2)], ids=str)
def test_axes_that_are_not_there_or_twice(axes):
    with pytest.raises(QuantValueError, match=r"axis|axes"):
        numerics.sum_over(_reals(3, 5), axes)
