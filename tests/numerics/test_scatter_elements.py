"""Scattered elements against a loop in Python."""

from __future__ import annotations

import math

import numpy as np
import pytest

from intact.numerics.scatter_elements import SCATTER_REDUCTIONS, scatter_elements

NAN, INF = math.nan, math.inf
F = np.float32


def _combine(reduction, there, update):
    if reduction == "none":
        return update
    return {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}[reduction](there, update)


@pytest.mark.rule("N58")
@pytest.mark.parametrize("reduction", SCATTER_REDUCTIONS)
@pytest.mark.parametrize("dtype", ["float32", "int32", "int64"])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_scattered_elements_one_after_the_other(dtype, reduction, axis):
    rng = np.random.default_rng(axis)
    x = (rng.standard_normal((3, 4, 5)) * 3).astype(dtype)
    shape = [2, 3, 4]
    shape[axis] = 7
    index = rng.integers(-x.shape[axis], x.shape[axis], shape)
    updates = (rng.standard_normal(shape) * 3).astype(dtype)
    want = x.copy()
    for place in np.ndindex(*shape):
        at = list(place)
        at[axis] = index[place]
        want[tuple(at)] = _combine(reduction, want[tuple(at)], updates[place])
    np.testing.assert_array_equal(scatter_elements(x, index, updates, axis, reduction), want, strict=True)


def test_an_extreme_with_what_is_no_number_is_none():
    x, index = np.array([1, NAN, 2], F), np.arange(3)
    updates = np.array([NAN, 1, 5], F)
    np.testing.assert_array_equal(scatter_elements(x, index, updates, 0, "max"), F([NAN, NAN, 5]))
    np.testing.assert_array_equal(scatter_elements(x, index, updates, 0, "min"), F([NAN, NAN, 2]))
