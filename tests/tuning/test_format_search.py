"""Choices that a search verifies, and their order."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from intact.ptq.mixed import BudgetProgram, Selection
from intact.tuning.format_search import search_formats
from intact.tuning.tune_result import TuneTrial

FLOAT = 1


def program(errors: list[float], seconds: list[float]) -> BudgetProgram:
    """Layers of two formats: one with an error, and float, which takes time."""
    none = np.zeros(len(errors))
    return BudgetProgram(
        range(len(errors)), ("int8", "float"),
        {"error": np.stack([errors, none], 1), "seconds": np.stack([none, seconds], 1)},
    )  # fmt: skip


def measure(costs: BudgetProgram, met: Callable[[Selection], bool]) -> Callable[[Selection], TuneTrial]:
    def verify(choice: Selection) -> TuneTrial:
        seconds = 1 + costs.total("seconds", choice)
        return TuneTrial({}, costs.total("error", choice), seconds, seconds, float(met(choice)), met(choice))

    return verify


@pytest.mark.parametrize("needed", [{0}, {3}, {0, 5}, {1, 2, 6}])
def test_layers_that_the_metric_does_not_mind_are_given_back(needed: set[int]) -> None:
    """By their errors layers 0 to 3 look the worst; the metric has a mind of its own."""
    costs = program([8, 7, 6, 5, 4, 3, 2, 1], [2.0, 1, 3, 1, 2, 1, 2, 1])
    result = search_formats(costs, measure(costs, lambda c: all(c[i] == FLOAT for i in needed)), trials=60)
    assert result.best == tuple(int(i in needed) for i in range(8))


def test_a_search_ends_when_its_trials_are_spent() -> None:
    costs = program([8, 7, 6, 5, 4, 3, 2, 1], [2.0, 1, 3, 1, 2, 1, 2, 1])
    for trials in range(1, 20, 4):
        result = search_formats(costs, measure(costs, lambda c: c[4] == FLOAT), trials)
        assert len(result.tried) <= trials and len(set(result.tried)) == len(result.tried)


def test_the_answer_is_no_slower_with_more_trials() -> None:
    costs = program([8, 7, 6, 5, 4, 3, 2, 1], [2.0, 1, 3, 1, 2, 1, 2, 1])
    verify = measure(costs, lambda c: c[0] == c[5] == FLOAT)
    trials_taken = [verify(search_formats(costs, verify, trials).best) for trials in range(10, 40, 8)]
    assert all(item.met for item in trials_taken)
    assert [item.seconds for item in trials_taken] == sorted(
        (item.seconds for item in trials_taken), reverse=True
    )


def test_what_saves_no_time_is_not_tried() -> None:
    """Float costs nothing in layer 1: giving it back would only lose accuracy."""
    costs = program([4, 3, 2], [1.0, 0.0, 1.0])
    result = search_formats(costs, measure(costs, lambda c: c == (1, 1, 1)), trials=40)
    assert result.best == (1, 1, 1) and (1, 0, 1) not in result.tried
