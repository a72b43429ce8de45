"""Groups within a budget: what is found, and for how many trials."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from intact.ptq.analysis.sensitivity_units import screen_groups


class Additive:
    """Errors that add up, and how often they were asked for."""

    def __init__(self, errors: Sequence[float]) -> None:
        self.errors, self.trials, self.rounds = errors, 0, 0

    def __call__(self, groups: Sequence[range]) -> list[float]:
        self.trials += len(groups)
        self.rounds += 1
        return [sum(self.errors[i] for i in group) for group in groups]


@pytest.mark.parametrize("budget", [8, 9, 1000])
def test_with_enough_trials_every_unit_is_a_group(budget: int) -> None:
    measure = Additive([0.0, 1.0, 2.0, 0.5, 0.0, 4.0, 1.0, 0.0])
    groups = screen_groups(8, budget, measure)
    assert [group.error for group in groups] == measure.errors and measure.trials == 8


@pytest.mark.parametrize("budget", [1, 2, 3, 7, 24, 60, 299])
@pytest.mark.parametrize("count", [1, 5, 300])
def test_groups_are_a_partition_within_the_budget(count: int, budget: int) -> None:
    measure = Additive([float(i % 7) for i in range(count)])
    groups = screen_groups(count, budget, measure)
    assert [i for group in groups for i in range(group.start, group.stop)] == list(range(count))
    assert measure.trials <= budget
    assert sum(group.error for group in groups) == sum(measure.errors)


def test_the_few_that_matter_are_found_in_a_fraction_of_the_trials() -> None:
    errors = [0.001] * 300
    errors[17], errors[18], errors[250] = 1.0, 0.5, 2.0
    measure = Additive(errors)
    groups = screen_groups(300, 60, measure)
    single = {group.start: group.error for group in groups if group.size == 1}
    assert {17, 18, 250} <= single.keys() and measure.trials <= 60
    assert measure.rounds < 12, "each round is a pass along the model"
