"""Layer normalization: the formula bit for bit, its accuracy, and errors of norms."""

from __future__ import annotations

import re

import numpy as np
import pytest
from tests.numerics.exact import sum_in_lanes

from intact import numerics
from intact.errors import QuantValueError

F32 = np.float32


def _reals(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(0, 3, shape).astype(F32)


@pytest.mark.rule("N41")
@pytest.mark.parametrize("n", [1, 5, 16, 40])
@pytest.mark.parametrize("residual", [False, True], ids=["bare", "residual"])
def test_layer_norm_is_the_formula(n, residual):
    x, other, weight, bias = (_reals(n, seed=s) for s in range(4))
    v = [a + b for a, b in zip(x, other, strict=True)] if residual else list(x)
    mean = sum_in_lanes(v) / F32(n)
    d = [value - mean for value in v]
    variance = sum_in_lanes([value * value for value in d]) / F32(n)
    r = F32(1) / np.sqrt(variance + F32(1e-5))
    want = [value * r * w + b for value, w, b in zip(d, weight, bias, strict=True)]
    got = numerics.layer_norm(x, weight, bias, 1e-5, other if residual else None)
    assert got.tolist() == want


@pytest.mark.rule("N41")
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
