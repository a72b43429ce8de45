"""The k largest elements against sorting in Python."""

from __future__ import annotations

import math

import numpy as np
import pytest

from intact.numerics.top_k import ORDER_DTYPES, top_k

NAN, INF = math.nan, math.inf
F = np.float32


@pytest.mark.rule("N58")
@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("dtype", ORDER_DTYPES)
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_top_k_is_sorting_and_of_equal_elements_the_first(dtype, largest, axis):
    low = 0 if dtype == "uint8" else -4
    x = np.random.default_rng(0).integers(low, 5, (3, 7, 5)).astype(dtype)
    assert top_k(x, 0, axis, largest)[0].shape[axis] == 0
    for k in range(1, x.shape[axis] + 1):
        y, places = top_k(x, k, axis, largest)
        assert y.dtype == x.dtype and places.dtype == np.int64
        lines = (np.moveaxis(a, axis, -1).reshape(-1, a.shape[axis]) for a in (x, y, places))
        for line, values, where in zip(*lines, strict=True):
            sign = -1 if largest else 1
            want = sorted(range(len(line)), key=lambda i, of=line, by=sign: (by * int(of[i]), i))[:k]
            assert where.tolist() == want and values.tolist() == line[want].tolist()


@pytest.mark.rule("N58")
def test_what_is_no_number_comes_first_and_zeros_are_equal():
    x = np.array([1, NAN, -INF, INF, -0.0, 0.0, NAN], F)
    assert top_k(x, 7, 0)[1].tolist() == [1, 6, 3, 0, 4, 5, 2]
    assert top_k(x, 7, 0, largest=False)[1].tolist() == [1, 6, 2, 4, 5, 0, 3]


def test_the_ends_of_integers_are_ordered():
    x = np.array([-(2**63), 2**63 - 1, 0], np.int64)
    assert top_k(x, 3, 0)[1].tolist() == [1, 2, 0]
    assert top_k(np.array([0, 255, 1], np.uint8), 3, 0)[0].tolist() == [255, 1, 0]
