"""exp and the other functions of one real: accuracy against float64, and what happens at the ends."""

from __future__ import annotations

import math

import numpy as np
import pytest

from intact import numerics

INF, NAN = math.inf, math.nan
ERF = np.vectorize(math.erf, otypes=[np.float64])
ERFC = np.vectorize(math.erfc, otypes=[np.float64])


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(np.minimum(-x, 700)))


EXACT = {
    "erf": ERF,
    "tanh": np.tanh,
    "sigmoid": _sigmoid,
    "gelu": lambda x: x * ERFC(-x / math.sqrt(2)) / 2,
    "gelu_tanh": lambda x: x / 2 * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    "silu": lambda x: x * _sigmoid(x),
    "hard_sigmoid": lambda x: np.clip(x / 6 + 0.5, 0, 1),
    "hard_swish": lambda x: x * np.clip(x / 6 + 0.5, 0, 1),
    "elu": lambda x: np.where(x < 0, np.expm1(np.minimum(x, 0)), x),
    "leaky_relu": lambda x: np.where(x < 0, 0.01 * x, x),
    "relu": lambda x: np.maximum(x, 0),
    "sin": np.sin,
    "cos": np.cos,
    "mish": lambda x: x * np.tanh(np.logaddexp(x, 0)),
    "softplus": lambda x: np.logaddexp(x, 0),
    "softsign": lambda x: x / (1 + np.abs(x)),
}
ARCS = {"acos", "acosh", "asin", "asinh", "atan", "atanh", "cosh", "sinh"}  # in test_arcs.py
RELATIVE = {"erf", "tanh", "sigmoid", "softplus", "softsign"}


def _grid(low: float, high: float, count: int) -> np.ndarray:
    """Even steps, and magnitudes down to the smallest."""
    even = np.linspace(low, high, count)
    small = 10.0 ** np.linspace(-38, 0, 400)
    return np.concatenate([even, small, -small]).astype(np.float32)


def test_exp_is_within_two_ulp():
    x = _grid(-103.9, 88.72, 400_001)
    exact = np.exp(x.astype(np.float64))
    ulp = np.spacing(exact.astype(np.float32)).astype(np.float64)
    assert (np.abs(numerics.exp(x) - exact) / ulp).max() <= 2


def test_exp_of_whole_powers_and_at_the_ends_of_float32():
    x = np.array([0, -0.0, 88.72283, 88.72284, -87.33655, -103.97, -104, -104.1], np.float32)
    y = numerics.exp(x)
    assert y[0] == y[1] == 1
    assert y[2] == pytest.approx(math.exp(x[2]), rel=2e-7) and y[3] == INF
    assert 0 < y[4] < 1.18e-38
    assert y[5] == np.float32(1e-45) and y[6] == y[7] == 0


def test_log_is_within_one_ulp():
    whole = np.exp(np.linspace(-103, 88, 200_001))
    x = np.concatenate([whole, np.linspace(0.5, 2, 100_000), [1, 1e-45, 3.4e38]]).astype(np.float32)
    exact = np.log(x.astype(np.float64))
    ulp = np.spacing(np.abs(exact).astype(np.float32)).astype(np.float64)
    assert (np.abs(numerics.FUNCTIONS["log"](x) - exact) <= ulp).all()


def test_log_and_sqrt_where_they_end():
    x = np.array([0, -0.0, -1e-45, -INF, INF, NAN, 1], np.float32)
    np.testing.assert_array_equal(numerics.FUNCTIONS["log"](x), [-INF, -INF, NAN, NAN, INF, NAN, 0])
    np.testing.assert_array_equal(numerics.FUNCTIONS["sqrt"](x), [0, 0, NAN, NAN, INF, NAN, 1])


def test_sqrt_is_the_nearest_float():
    x = _grid(0, 1000, 100_001)
    x = x[x >= 0]
    np.testing.assert_array_equal(
        numerics.FUNCTIONS["sqrt"](x), np.sqrt(x.astype(np.float64)).astype(np.float32)
    )


@pytest.mark.parametrize("name", sorted(EXACT))
def test_accuracy(name):
    x = _grid(-12, 12, 60_001)
    exact = EXACT[name](x.astype(np.float64))
    size = np.abs(exact) if name in RELATIVE else np.maximum(1, np.abs(x))
    # a denormal result has fewer bits: half of its last one comes on top
    assert (np.abs(numerics.FUNCTIONS[name](x) - exact) <= 3e-7 * size + 2e-45).all()


@pytest.mark.parametrize("name", sorted(EXACT))
def test_accuracy_far_from_zero(name):
    x = np.concatenate([np.linspace(12, 1e4, 5001), -np.linspace(12, 87, 5001)]).astype(np.float32)
    exact = EXACT[name](x.astype(np.float64))
    assert (np.abs(numerics.FUNCTIONS[name](x) - exact) <= 3e-7 * np.maximum(1, np.abs(exact))).all()


@pytest.mark.parametrize(
    ("name", "at_minus_infinity", "at_infinity"),
    [
        ("exp", 0, INF), ("erf", -1, 1), ("tanh", -1, 1), ("sigmoid", 0, 1), ("gelu", 0, INF),
        ("gelu_tanh", 0, INF), ("silu", 0, INF), ("hard_sigmoid", 0, 1), ("hard_swish", 0, INF),
        ("elu", -1, INF), ("leaky_relu", -INF, INF), ("relu", 0, INF), ("mish", 0, INF), ("softplus", 0, INF),
    ],
)  # fmt: skip
def test_special_values(name, at_minus_infinity, at_infinity):
    y = numerics.FUNCTIONS[name](np.array([-INF, INF, NAN, -3e38, 3e38], np.float32))
    assert y[0] == pytest.approx(at_minus_infinity, abs=1e-8)
    assert y[1] == at_infinity
    assert np.isnan(y[2]) and not np.isnan(y[3:]).any()


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


@pytest.mark.parametrize("name", ["erf", "tanh", "sin", "softsign"])
def test_odd_functions_are_odd_in_every_bit(name):
    x = _grid(0, 6, 2001)
    y = numerics.FUNCTIONS[name](np.stack([x, -x]))
    np.testing.assert_array_equal(y[0].view(np.int32) ^ np.int32(-(2**31)), y[1].view(np.int32))


@pytest.mark.parametrize("name", ["exp", "erf", "tanh", "sigmoid"])
def test_never_turns_around(name):
    """A step back by an ulp is what rounding does; codes could only show larger ones."""
    x = np.linspace(-20, 20, 200_001).astype(np.float32)
    y = numerics.FUNCTIONS[name](x)
    assert (np.diff(y) >= -2 * np.spacing(np.abs(y[1:]))).all()


def test_every_function_is_tested_here_and_takes_any_real_dtype():
    assert set(numerics.FUNCTIONS) == {*EXACT, *ARCS, "exp", "log", "sqrt"}
    for function in numerics.FUNCTIONS.values():
        y = function(np.linspace(-2, 2, 6, dtype=np.float64).reshape(2, 3))
        assert y.dtype == np.float32 and y.shape == (2, 3)
        assert function(0.5).shape == ()


def test_extremes():
    a = np.array([1, 2, -0.0, 0.0, NAN, 1, NAN, INF, -INF], np.float32)
    b = np.array([2, 1, 0.0, -0.0, 1, NAN, NAN, 0, 0], np.float32)
    np.testing.assert_array_equal(numerics.maximum(a, b), np.maximum(a, b))
    np.testing.assert_array_equal(numerics.minimum(a, b), np.minimum(a, b))
    for function in (numerics.maximum, numerics.minimum):
        assert np.signbit(function(a, b)[2:4]).tolist() == [True, False]  # of equal numbers the first


def test_clip():
    x = np.array([-INF, -2, -0.0, 0.5, 2, INF, NAN], np.float32)
    np.testing.assert_array_equal(numerics.clip(x, -1, 1), np.clip(x, -1, 1))
    assert np.signbit(numerics.clip(x, 0, 6)[2])
    np.testing.assert_array_equal(numerics.clip(x[:-1], 3, 1), np.ones(6))  # ONNX: the high end comes last
    np.testing.assert_array_equal(numerics.clip(x, -INF, 0.1)[3:], np.float32([0.1, 0.1, 0.1, NAN]))


def test_slopes_below_zero():
    x = np.array([-INF, -3, -1e-45, -0.0, 0.0, 2, INF, NAN], np.float32)
    y = numerics.sloped(x, 0.1)
    np.testing.assert_array_equal(y, np.where(x < 0, x * np.float32(0.1), x))
    assert np.signbit(y[3]) and y[6] == INF and np.isnan(y[7])
    np.testing.assert_array_equal(numerics.sloped(-np.ones((2, 3)), [[2], [-0.5]])[:, 0], [-2, 0.5])
