"""Running sums against a loop in Python."""

from __future__ import annotations

import numpy as np
import pytest

from intact.numerics.fold import CUM_SUM_DTYPES, cum_sum


@pytest.mark.rule("N54")
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


@pytest.mark.rule("N54")
def test_running_sums_of_integers_wrap_around() -> None:
    assert cum_sum(np.array([2**31 - 1, 1], np.int32), 0).tolist() == [2**31 - 1, -(2**31)]


@pytest.mark.rule("N54")
def test_sums_begin_with_the_first_element_itself() -> None:
    assert np.signbit(cum_sum(np.float32([-0.0, -0.0]), 0)).all()
