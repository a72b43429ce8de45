"""Arcs and hyperbolic functions: accuracy against float64, and what happens at the ends."""

from __future__ import annotations

import math

import numpy as np
import pytest

from intact import numerics

INF, NAN = math.inf, math.nan
SMALL = 10.0 ** np.linspace(-38, -1, 400)
LARGE = 10.0 ** np.linspace(-1, 38.4, 4000)
UNIT = np.linspace(0, 1, 100_001)
EVEN = np.linspace(0, 20, 100_001)
WHERE = {
    "atan": (EVEN, SMALL, LARGE), "asin": (UNIT, SMALL), "sinh": (EVEN, SMALL, np.linspace(20, 89.4, 5001)),
    "asinh": (EVEN, SMALL, LARGE), "atanh": (UNIT[:-1], 1 - SMALL, SMALL),
}  # fmt: skip
"""Odd functions, and the magnitudes at which they are looked at."""


def differ(name: str, x: np.ndarray) -> np.ndarray:
    """Return the error of a function, over its size."""
    exact = getattr(np, name.replace("a", "arc", 1) if name[0] == "a" else name)(x.astype(np.float64))
    got = numerics.FUNCTIONS[name](x)
    assert np.isfinite(got).all()
    return np.abs(got - exact) / np.maximum(np.abs(exact), 1e-37)


@pytest.mark.rule("N64")
@pytest.mark.parametrize("name", WHERE)
def test_odd_ones(name: str) -> None:
    x = np.concatenate(WHERE[name]).astype(np.float32)
    x = x[x < 1] if name == "atanh" else x
    assert differ(name, x).max() <= 5e-7
    y = numerics.FUNCTIONS[name](np.stack([x, -x]))
    np.testing.assert_array_equal(y[0].view(np.int32) ^ np.int32(-(2**31)), y[1].view(np.int32))


@pytest.mark.rule("N64")
@pytest.mark.parametrize(("name", "low", "high"), [("cosh", -89, 89), ("acosh", 1, 30), ("acosh", 1, 3.4e38)])
def test_the_others(name: str, low: float, high: float) -> None:
    x = np.linspace(low, high, 100_001).astype(np.float32)
    assert differ(name, x).max() <= 5e-7


@pytest.mark.rule("N64")
def test_acos_is_near_pi_exact_in_its_last_bits_and_relative_near_one() -> None:
    x = np.concatenate([UNIT, -UNIT, SMALL, -SMALL]).astype(np.float32)
    exact = np.arccos(x.astype(np.float64))
    got = numerics.FUNCTIONS["acos"](x)
    assert (np.abs(got - exact) <= 4e-7).all()
    near = x > 0.5
    assert (np.abs(got - exact)[near] <= 4e-7 * exact[near]).all()


ENDS = {
    "atan": [-math.pi / 2, math.pi / 2, -math.pi / 4, math.pi / 4, 0],
    "asin": [NAN, NAN, -math.pi / 2, math.pi / 2, 0],
    "acos": [NAN, NAN, math.pi, 0, math.pi / 2],
    "sinh": [-INF, INF, math.sinh(-1), math.sinh(1), 0],
    "cosh": [INF, INF, math.cosh(1), math.cosh(1), 1],
    "asinh": [-INF, INF, math.asinh(-1), math.asinh(1), 0],
    "acosh": [NAN, INF, NAN, 0, NAN],
    "atanh": [NAN, NAN, -INF, INF, 0],
}


@pytest.mark.rule("N64")
@pytest.mark.parametrize("name", ENDS)
def test_special_values(name: str) -> None:
    y = numerics.FUNCTIONS[name](np.array([-INF, INF, -1, 1, 0, NAN], np.float32))
    np.testing.assert_allclose(y, [*ENDS[name], NAN], rtol=3e-7)
    beyond = numerics.FUNCTIONS[name](np.array([-3e38, 3e38, -1.5, 1.5], np.float32))
    assert np.isnan(beyond).tolist() == {
        "asin": [True] * 4, "acos": [True] * 4, "atanh": [True] * 4, "acosh": [True, False, True, False],
    }.get(name, [False] * 4)  # fmt: skip
