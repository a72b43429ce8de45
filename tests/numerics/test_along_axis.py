"""Folds, running sums and places of the largest elements (N54), one element after the other."""

from __future__ import annotations

import numpy as np
import pytest

from intact.numerics.arg_max import ORDER_DTYPES, arg_max
from intact.numerics.cum_sum import CUM_SUM_DTYPES, cum_sum
from intact.numerics.fold import FOLD_DTYPES, fold
from intact.numerics.interpolate import interpolate


@pytest.mark.parametrize(("dtype", "function"), [(d, f) for d, known in FOLD_DTYPES.items() for f in known])
def test_folds_are_one_operation_after_the_other(dtype: str, function: str) -> None:
    x = np.random.default_rng(0).integers(-9, 9, 40).astype(dtype)
    x = np.where(x == 0, 1, x).astype(dtype) if dtype != "float32" else np.float32(1) + x / np.float32(7)
    one = {"sum": np.add, "prod": np.multiply, "max": max, "min": min}[function]
    want = x[0]
    with np.errstate(all="ignore"):
        for number in x[1:]:
            want = one(want, number)
    got = fold(x.reshape(1, 40, 1), 1, function)
    assert got.dtype == x.dtype and got.shape == (1, 1, 1) and got.item() == want


def test_folds_of_nothing_and_of_what_wraps_around() -> None:
    ends = {"sum": 0, "prod": 1, "max": -(2**31), "min": 2**31 - 1}
    for function, end in ends.items():
        assert fold(np.zeros((2, 0), np.int32), 1, function).tolist() == [[end], [end]]
    assert fold(np.array([2**31 - 1, 1], np.int32), 0, "sum").tolist() == [-(2**31)]
    assert fold(np.array([2**62, 4], np.int64), 0, "prod").tolist() == [0]


@pytest.mark.parametrize("dtype", CUM_SUM_DTYPES)
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("exclusive", [False, True])
def test_running_sums_are_one_addition_after_the_other(dtype: str, exclusive: bool, reverse: bool) -> None:
    x = (np.random.default_rng(0).standard_normal(40) * 1e3).astype(dtype)
    lines = x[::-1] if reverse else x
    want = [lines[0]]
    for number in lines[1:]:
        want.append(want[-1] + number)
    want = [np.zeros((), dtype), *want[:-1]] if exclusive else want
    got = cum_sum(x, 0, exclusive, reverse)
    assert got.dtype == x.dtype and got.tolist() == (want[::-1] if reverse else want)


def test_running_sums_of_integers_wrap_around() -> None:
    assert cum_sum(np.array([2**31 - 1, 1], np.int32), 0).tolist() == [2**31 - 1, -(2**31)]


def test_sums_begin_with_the_first_element_itself() -> None:
    assert np.signbit(cum_sum(np.float32([-0.0, -0.0]), 0)).all()


@pytest.mark.parametrize("dtype", ORDER_DTYPES)
@pytest.mark.parametrize("smallest", [False, True])
def test_of_equal_elements_the_first_or_the_last(dtype: str, smallest: bool) -> None:
    x = np.array([[2, 7, 1, 7, 1]], dtype)
    ends = (2, 4) if smallest else (1, 3)
    for last in (False, True):
        found = arg_max(x, 1, smallest, last)
        assert found.dtype == np.int64 and found.tolist() == [[ends[last]]]


@pytest.mark.parametrize("smallest", [False, True])
def test_what_is_no_number_is_beyond_all_numbers(smallest: bool) -> None:
    x = np.float32([1, np.nan, np.inf, np.nan, -np.inf])
    assert [int(arg_max(x, 0, smallest, last)[0]) for last in (False, True)] == [1, 3]


def test_values_between_elements_are_sums_of_rounded_products():
    x = np.float32([[1, 10], [2**24, 20], [3, 30]])
    places, weights = np.array([[0, 1], [2, 1], [1, 0]]), np.float32([[1, 1], [0.5, 0.25], [0.1, 0.3]])
    want = [[w[0] * x[p[0]] + w[1] * x[p[1]] for p, w in zip(places, weights, strict=True)]]
    got = interpolate(x, 0, places, weights)
    assert got[0, 0] == 2**24, "1 is lost beside it"
    np.testing.assert_array_equal(got, want[0], strict=True)
