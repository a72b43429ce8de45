"""Sums in a fixed order, softmax and layer_norm: the formulas one operation at a time, and their accuracy."""

from __future__ import annotations

import re

import numpy as np
import pytest

from intact import numerics
from intact.errors import QuantValueError
from intact.numerics.floats.exp import LOG2_E, exp2

F32 = np.float32


def _sum(values: list[np.float32]) -> np.float32:
    """N39 one addition at a time."""
    lanes = [F32(0)] * 16
    for i, value in enumerate(values):
        lanes[i % 16] = lanes[i % 16] + value
    for half in (8, 4, 2, 1):
        lanes = [lanes[i] + lanes[i + half] for i in range(half)]
    return lanes[0]


def _reals(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(0, 3, shape).astype(F32)


@pytest.mark.parametrize("n", [0, 1, 7, 15, 16, 17, 33, 100, 768])
def test_lane_sum_has_one_order(n):
    x = _reals(3, n, seed=n)
    assert numerics.lane_sum(x).tolist() == [_sum(list(row)) for row in x]


def test_lane_sum_of_minus_zeros_is_zero():
    assert not np.signbit(numerics.lane_sum(np.full((1, 16), -0.0, F32))).any()


@pytest.mark.parametrize("axes", [(-1,), (0,), (1, 2), (2, 0), (0, 1, 2), ()], ids=str)
def test_sums_and_means_along_axes(axes):
    x = _reals(3, 5, 9)
    inner = sorted(axis % 3 for axis in axes)
    rows = np.moveaxis(x, inner, range(3 - len(inner), 3)).reshape(*np.delete(x.shape, inner), -1)
    sums = np.array([_sum(list(row)) for row in rows.reshape(-1, rows.shape[-1])]).reshape(rows.shape[:-1])
    np.testing.assert_array_equal(numerics.sum_over(x, axes), sums)
    np.testing.assert_array_equal(numerics.mean_over(x, axes), sums / F32(rows.shape[-1]))
    kept = numerics.mean_over(x, axes, keepdims=True)
    assert kept.shape == tuple(1 if axis in inner else n for axis, n in enumerate(x.shape))
    np.testing.assert_array_equal(kept.reshape(sums.shape), numerics.mean_over(x, axes))


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


@pytest.mark.parametrize("n", [1, 5, 16, 40])
@pytest.mark.parametrize("masked", [False, True], ids=["bare", "masked"])
def test_softmax_is_the_formula(n, masked):
    x, mask, gain = _reals(n), _reals(n, seed=1) if masked else np.zeros(n, F32), F32(0.125)
    v = [a * gain + m for a, m in zip(x, mask, strict=True)]
    e = [exp2(np.asarray((value - max(v)) * LOG2_E))[()] for value in v]
    inverse = F32(1) / _sum(e)
    got = numerics.softmax(x, gain=0.125, mask=mask if masked else None)
    assert got.tolist() == [value * inverse for value in e]


def test_softmax_accuracy():
    x = _reals(50, 128)
    e = np.exp(x.astype(np.float64) - x.max(axis=-1, keepdims=True))
    # x - max(x) reaches 20 here, and its rounding alone moves e by 1e-6 of its size
    np.testing.assert_allclose(numerics.softmax(x), e / e.sum(axis=-1, keepdims=True), rtol=2e-6)


@pytest.mark.parametrize("axis", [0, 1, -2, 2])
def test_softmax_along_any_axis(axis):
    x = _reals(3, 4, 5)
    want = np.moveaxis(numerics.softmax(np.moveaxis(x, axis, -1)), -1, axis)
    np.testing.assert_array_equal(numerics.softmax(x, axis), want)


def test_softmax_hides_what_the_mask_says():
    mask = np.where(np.arange(20) < 12, 0, -np.inf).astype(F32)
    y = numerics.softmax(_reals(2, 20), mask=mask)
    assert (y[:, 12:] == 0).all()
    np.testing.assert_allclose(y.astype(np.float64).sum(axis=-1), 1, rtol=1e-6)


def test_softmax_of_nothing_finite_is_nan():
    assert np.isnan(numerics.softmax(np.full((1, 3), -np.inf, F32))).all()
    assert numerics.softmax(np.zeros((2, 0), F32)).shape == (2, 0)


@pytest.mark.parametrize("n", [1, 5, 16, 40])
@pytest.mark.parametrize("residual", [False, True], ids=["bare", "residual"])
def test_layer_norm_is_the_formula(n, residual):
    x, other, weight, bias = (_reals(n, seed=s) for s in range(4))
    v = [a + b for a, b in zip(x, other, strict=True)] if residual else list(x)
    mean = _sum(v) / F32(n)
    d = [value - mean for value in v]
    variance = _sum([value * value for value in d]) / F32(n)
    r = F32(1) / np.sqrt(variance + F32(1e-5))
    want = [value * r * w + b for value, w, b in zip(d, weight, bias, strict=True)]
    got = numerics.layer_norm(x, weight, bias, 1e-5, other if residual else None)
    assert got.tolist() == want


def test_layer_norm_accuracy():
    x = _reals(50, 768)
    centred = x.astype(np.float64) - x.astype(np.float64).mean(axis=-1, keepdims=True)
    want = centred / np.sqrt((centred**2).mean(axis=-1, keepdims=True) + 1e-12)
    np.testing.assert_allclose(numerics.layer_norm(x, epsilon=1e-12), want, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: numerics.softmax(np.zeros((2, 3)), 2), "axis: got 2, want an axis of a tensor of rank 2"),
        (lambda: numerics.softmax(np.zeros((2, 3)), mask=np.zeros(2)), "mask: got shape (2,), want one that"),
        (lambda: numerics.layer_norm(np.zeros((2, 3)), np.zeros(2)), "weight: got shape (2,), want"),
        (lambda: numerics.layer_norm(np.zeros(3), residual=np.zeros(1)), "residual: got shape (1,), want"),
        (lambda: numerics.layer_norm(1.0), "x: got a number, want a last axis"),
    ],
    ids=["axis", "mask", "weight", "residual", "number"],
)  # fmt: skip
def test_errors_say_what_is_wrong(call, message):
    with pytest.raises(QuantValueError, match=re.escape(message)):
        call()
