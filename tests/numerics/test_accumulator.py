"""The bound of an accumulator is reached, and never exceeded."""

from __future__ import annotations

import numpy as np
import pytest

from intact import numerics as nx


@pytest.mark.rule("N20")
def test_accumulator_bound_is_reached_by_the_worst_input():
    w, bias = np.array([[127, -128, 3], [1, 1, -1]], np.int8), np.array([1000, -7], np.int32)
    bound = nx.accumulator_bound(w, (0, 255), 10, bias=bias)
    assert bound.tolist() == [245 * 258 + 1000, 245 * 3 + 7]
    low_zero = nx.accumulator_bound(w, (0, 255), 0, bias=np.array([1000, 7]))
    positive_only = nx.linear(np.array([[255, 255]]), np.array([[127, 1]]), 0)
    assert nx.accumulator_bound(np.array([[127, 1]]), (0, 255), 0) == positive_only[0]
    assert low_zero.tolist() == [255 * 258 + 1000, 255 * 3 + 7]
    nx.prove_accumulator(bound)
    nx.prove_accumulator(2**31 - 1)


@pytest.mark.rule("N20")
def test_accumulator_bound_counts_weight_zero_points_of_convolutions():
    w = np.array([[[[10, 20]]], [[[30, 40]]]], np.uint8)
    assert nx.accumulator_bound(w, (-128, 127), 0, [15, 35]).tolist() == [1280, 1280]
