"""Folds along an axis against a loop in Python."""

from __future__ import annotations

import numpy as np
import pytest

from intact.numerics.fold import FOLD_DTYPES, fold


@pytest.mark.rule("N60")
@pytest.mark.parametrize(
    ("dtype", "function"), [(d, f) for d, functions in FOLD_DTYPES.items() for f in functions]
)
def test_folds_are_one_operation_after_the_other(dtype: str, function: str) -> None:
    x = np.random.default_rng(0).integers(-9, 9, 40).astype(dtype)
    x = np.where(x == 0, 1, x).astype(dtype) if dtype != "float32" else np.float32(1) + x / np.float32(7)
    combine = {"sum": np.add, "prod": np.multiply, "max": max, "min": min}[function]
    want = x[0]
    with np.errstate(all="ignore"):
        for number in x[1:]:
            want = combine(want, number)
    got = fold(x.reshape(1, 40, 1), 1, function)
    assert got.dtype == x.dtype and got.shape == (1, 1, 1) and got.item() == want


@pytest.mark.rule("N60")
def test_folds_of_nothing_and_of_what_wraps_around() -> None:
    ends = {"sum": 0, "prod": 1, "max": -(2**31), "min": 2**31 - 1}
    for function, end in ends.items():
        assert fold(np.zeros((2, 0), np.int32), 1, function).tolist() == [[end], [end]]
    assert fold(np.array([2**31 - 1, 1], np.int32), 0, "sum").tolist() == [-(2**31)]
    assert fold(np.array([2**62, 4], np.int64), 0, "prod").tolist() == [0]
