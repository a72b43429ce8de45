"""Indices of the largest and smallest elements: ties and NaN."""

from __future__ import annotations

import numpy as np
import pytest

from intact.numerics.top_k import ORDER_DTYPES, arg_max


@pytest.mark.rule("N54")
@pytest.mark.parametrize("dtype", ORDER_DTYPES)
@pytest.mark.parametrize("smallest", [False, True])
def test_of_equal_elements_the_first_or_the_last(dtype: str, smallest: bool) -> None:
    x = np.array([[2, 7, 1, 7, 1]], dtype)
    ends = (2, 4) if smallest else (1, 3)
    for last in (False, True):
        places = arg_max(x, 1, smallest, last)
        assert places.dtype == np.int64 and places.tolist() == [[ends[last]]]


@pytest.mark.rule("N54")
@pytest.mark.parametrize("smallest", [False, True])
def test_what_is_no_number_is_beyond_all_numbers(smallest: bool) -> None:
    x = np.float32([1, np.nan, np.inf, np.nan, -np.inf])
    assert [int(arg_max(x, 0, smallest, last)[0]) for last in (False, True)] == [1, 3]
