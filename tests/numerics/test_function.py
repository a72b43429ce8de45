"""All functions of one float: accuracy, symmetry and special values."""

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
    "quick_gelu": lambda x: x * _sigmoid(1.702 * x),
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


@pytest.mark.rule("N38")
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


@pytest.mark.rule("N37", "N38")
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
